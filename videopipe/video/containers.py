"""Which files a decoder may open: one video in one file, and nothing that names other files.

FFmpeg recognises more than videos. A playlist makes it read other files, a name such as
`s%03d.jpg` is a pattern for it, and text becomes a picture of text. A file called `film.mp4` may be
any of these. Every file is therefore checked before a backend opens it, and PyAV is given the
protocols and containers it may use. The other backends take no such options; they open a file only
after PyAV has recognised it.
"""

from pathlib import Path
from typing import BinaryIO

# The demuxers of FFmpeg that read one file and may find a video in it; sound files are among them,
# so that they are reported as files without a video stream.
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,avi,matroska,webm,flv,live_flv,kux,asf,asf_o,mpeg,mpegts,mpegtsraw,"
    "mpegvideo,ogg,mxf,gxf,nut,nuv,rm,ivr,swf,wtv,ty,pva,nsv,dhav,lxf,moflex,mlv,"
    "h261,h263,h264,hevc,vvc,evc,m4v,av1,obu,ivf,vc1,vc1test,dirac,dnxhd,cavsvideo,avs2,avs3,"
    "dv,mjpeg,mjpeg_2000,smjpeg,yuv4mpegpipe,gif,apng,jpegxl_anim,"
    "4xm,amv,bink,cdxl,ea,film_cpk,flic,idcin,ipmovie,mtv,mv,roq,rpl,smk,thp,vivo,vmd,xmv,"
    "jpeg_pipe,png_pipe,bmp_pipe,tiff_pipe,webp_pipe,"
    "aac,ac3,aiff,amr,caf,flac,mp3,wav"
)
READING_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": CONTAINERS}

PATTERN_CHARACTERS = "%*?{"  # patterns of numbered files in FFmpeg's image reader
# The image reader is chosen by name, and never for these suffixes.
NEVER_IMAGES = frozenset(
    ".3gp .avi .flv .m4v .mkv .mov .mp4 .mpeg .mpg .ts .webm .wmv".split()  # noqa: SIM905
)
HEAD_BYTES = 4096
PROBED_BYTES = 2**20  # FFmpeg reads no more than this to recognise a container
ID3_HEADER_BYTES = 10


def playlist_kind(path: Path) -> str | None:
    """The kind of a file that names other files or streams; None for any other file.

    The rules are those by which FFmpeg recognises these formats; names of files do not matter.
    """
    with path.open("rb") as file:
        text = _leading_text(file)
    if text.startswith(b"#extm3u"):
        return "an HLS playlist (M3U8)"
    if text.startswith(b"ffconcat"):
        return "a concat script (ffconcat)"
    if b"<mpd" in text:
        return "a DASH manifest (MPD)"
    if b"<compositionplaylist" in text:
        return "an IMF playlist"
    if text.startswith((b"v=0\n", b"v=0\r")) or b"\nc=in ip" in b"\n" + text:
        return "a description of network streams (SDP)"
    if text.startswith(b"# vobsub index file"):
        return "an index of subtitles (VobSub)"
    return None


def looks_like_pattern(path: Path) -> bool:
    """Whether FFmpeg may take the path for a pattern of numbered images."""
    return path.suffix.lower() not in NEVER_IMAGES and any(
        character in str(path) for character in PATTERN_CHARACTERS
    )


def _leading_text(file: BinaryIO) -> bytes:
    """The file up to its first zero byte, in lower case, after ID3 tags; FFmpeg skips them too."""
    start = 0
    head = file.read(HEAD_BYTES)
    while head.startswith(b"ID3") and len(head) >= ID3_HEADER_BYTES and start < PROBED_BYTES:
        start += _id3_bytes(head)
        file.seek(start)
        head = file.read(HEAD_BYTES)
    if b"\0" not in head:
        head += file.read(PROBED_BYTES - HEAD_BYTES)
    return head.partition(b"\0")[0].lower()


def _id3_bytes(header: bytes) -> int:
    """The length of an ID3v2 tag: four times seven bits, and a footer where flag 16 is set."""
    length = 0
    for byte in header[6:10]:
        length = length << 7 | byte & 0x7F
    return length + ID3_HEADER_BYTES * (2 if header[5] & 0x10 else 1)
