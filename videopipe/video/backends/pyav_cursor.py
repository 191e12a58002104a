"""The position in a video: which frame is shown at a given time.

The decoder returns frames in display order, and that order is always kept. Their times come from
the first of three clocks whose values increase in this file:

- "pts", the presentation timestamps;
- "dts", the decoding timestamps of the packets that produced the frames. AVI has no presentation
  timestamps, and those that FFmpeg derives are swapped around B-frames in most HMDB-51 files
  (1, 4, 3, 6, 5, …);
- "count", the number of the frame divided by the mean rate, for streams whose timestamps jump or
  are missing.
"""

import bisect
from collections.abc import Generator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from videopipe.errors import DecodeError
from videopipe.system.pool_worker import heartbeat
from videopipe.video.backends.pyav_length import Length, measure
from videopipe.video.backends.pyav_stream import PyavStream
from videopipe.video.decoder import END_TOLERANCE_SECONDS

Clock = Literal["pts", "dts", "count"]
NEXT_CLOCK: dict[Clock, Clock] = {"pts": "dts", "dts": "count"}
WORTH_A_SEEK_SECONDS = 0.5
KEY_MARGIN_SECONDS = 0.2  # an index holds decoding timestamps, which precede presentation
FRAMES_TO_A_KEY = 300
FRAME_PERIODS = 1.05  # the longest a frame is shown where frames are evenly spaced


class ClockError(Exception):
    """The times of this clock do not increase in this file."""


class TimedFrame(NamedTuple):
    """A decoded frame and the time from which it is shown."""

    seconds: float
    frame: Any


class FrameCursor:
    """The frame shown at the current position, and the next one if it has been decoded."""

    def __init__(self, stream: PyavStream) -> None:
        self.stream = stream
        self.clock: Clock = "dts" if stream.format_name == "avi" else "pts"
        self.wanted: list[float] = []  # sorted times; B-frames between them may be skipped
        self.notes: list[str] = []  # problems found while decoding
        self._origin_stamp = 0
        self._following: TimedFrame | None = None
        self._ended = False
        self._worth_a_seek_seconds = WORTH_A_SEEK_SECONDS
        self._length: Length | None = None
        self.period_seconds = 0.04
        self.restart()
        self._length = measure(stream, self._origin_stamp)
        self.period_seconds = 1 / self._length.frame_rate
        if self._length.counted:
            self.clock = "count"
            self.restart()

    @property
    def length(self) -> Length:
        """The length; it is corrected when the video ends before the duration in the header."""
        assert self._length is not None
        return self._length

    def restart(self) -> None:
        """Go to the first frame, which is time 0, with the first clock that has a time for it."""
        while True:
            self.stream.rewind()
            self._origin_stamp = 0
            self._frames = self._stamped()
            try:
                first = next(self._frames, None)
            except ClockError:
                self.clock = NEXT_CLOCK[self.clock]
                continue
            break
        if first is None:
            reason = self.stream.first_error
            raise DecodeError(
                self.stream.path, f"no frame decodes{f' ({reason})' if reason else ''}"
            )
        self._origin_stamp, frame = first
        self.shown = TimedFrame(0.0, frame)
        self._following, self._ended = None, False

    def stop(self) -> None:
        """Stop decoding and release all frames."""
        self._frames.close()
        self.shown, self._following = TimedFrame(0.0, None), None

    def go_to(self, seconds: float) -> TimedFrame:
        """Go to the last frame that begins at or before `seconds`, and return it."""
        while True:
            try:
                return self._go_to(seconds)
            except ClockError:
                self.clock = NEXT_CLOCK[self.clock]
                self.restart()

    def decode_all(self) -> list[float]:
        """Decode the whole video; return when each frame begins. The length is exact afterwards."""
        self.wanted = []
        while True:
            self.restart()
            times = [self.shown.seconds]
            try:
                while (timed := self.advance()) is not None:
                    times.append(timed.seconds)
                    heartbeat()
            except ClockError:
                self.clock = NEXT_CLOCK[self.clock]
                continue
            self._length = replace(
                self.length, duration_seconds=self.end_seconds, num_frames=len(times)
            )
            return times

    @property
    def at_end(self) -> bool:
        """Whether the current frame is the last one of the video."""
        return self._ended and self._following is None

    @property
    def end_seconds(self) -> float:
        """When the current frame ends, from its own duration or the frame rate."""
        ticks = self.shown.frame.duration or 0
        return self.shown.seconds + max(self.period_seconds, ticks * self.stream.tick_seconds)

    def advance(self) -> TimedFrame | None:
        """Go to the next frame and return it; None at the end."""
        following = self._peek()
        if following is not None:
            self.shown, self._following = following, None
        return following

    def _go_to(self, seconds: float) -> TimedFrame:
        if seconds < self.shown.seconds or self._may_seek(seconds):
            self._seek_near(seconds)
        while True:
            if seconds < self.shown.seconds + self._shortest_seconds:
                return self.shown  # the next frame begins later
            following = self._peek()
            if following is None or following.seconds > seconds:
                return self.shown
            self.advance()

    def _peek(self) -> TimedFrame | None:
        if self._following is None and not self._ended:
            stamped = next(self._frames, None)
            if stamped is None:
                self._ended = True
                self._note_end()
            else:
                self._following = TimedFrame(self._seconds(stamped[0]), stamped[1])
        return self._following

    def _note_end(self) -> None:
        """Correct the length when the video ends before the duration in its header."""
        end_seconds, promised = self.end_seconds, self._length
        if promised and end_seconds < promised.duration_seconds - END_TOLERANCE_SECONDS:
            self.notes.append(
                f"the header promises {promised.duration_seconds:.2f} s, {end_seconds:.2f} s decode"
            )
            num_frames = min(promised.num_frames, round(end_seconds * promised.frame_rate))
            self._length = replace(
                promised, duration_seconds=end_seconds, num_frames=max(1, num_frames)
            )

    @property
    def _shortest_seconds(self) -> float:
        """The least time between two frames: one tick of the clock."""
        return self.period_seconds if self.clock == "count" else self.stream.tick_seconds

    def _seconds(self, stamp: int) -> float:
        if self.clock == "count":
            return stamp * self.period_seconds
        return (stamp - self._origin_stamp) * self.stream.tick_seconds

    def _stamped(self) -> Generator[tuple[int, Any], None, None]:
        """Frames from here on with their timestamps, which must increase."""
        last: int | None = None
        for number, frame in enumerate(self.stream.frames(self._is_wanted)):
            stamp = number if self.clock == "count" else getattr(frame, self.clock)
            if stamp is None and self.clock == "dts" and self.stream.last_packet_dts is not None:
                # The decoder returns the last frames when it is flushed, without a packet.
                after = self.stream.last_packet_dts if last is None else last
                stamp = max(self.stream.last_packet_dts, after) + (frame.duration or 1)
            if stamp is None or (last is not None and stamp <= last):
                raise ClockError
            last = stamp
            yield stamp, frame

    def _is_wanted(self, packet: Any) -> bool:
        """Whether the frame of this packet may be shown at one of the wanted times."""
        if self.clock == "count" or not self.wanted:
            return True
        stamp = packet.pts if self.clock == "pts" else packet.dts
        if stamp is None:
            return True
        seconds = (stamp - self._origin_stamp) * self.stream.tick_seconds
        position = bisect.bisect_left(self.wanted, seconds)
        if position == len(self.wanted):
            return True  # the next request may start here
        return self.wanted[position] < seconds + FRAME_PERIODS * self.period_seconds

    def _may_seek(self, seconds: float) -> bool:
        """Whether there is a key frame ahead that is faster to reach by seeking."""
        ahead_seconds = seconds - self.shown.seconds
        if self.clock == "count" or ahead_seconds < self._worth_a_seek_seconds:
            return False
        target = self._origin_stamp + int((seconds - KEY_MARGIN_SECONDS) / self.stream.tick_seconds)
        key_stamp = self.stream.key_stamp_before(target)
        if key_stamp is None:
            return True
        return self._seconds(key_stamp) > self.shown.seconds + KEY_MARGIN_SECONDS

    def _seek_near(self, seconds: float) -> None:
        """Seek to a key frame at or before `seconds`, as close as the file allows."""
        before = self.shown.seconds
        step_seconds = 0.0
        while self.clock != "count" and step_seconds <= max(seconds, 1.0) * 2:
            target = self._origin_stamp + int((seconds - step_seconds) / self.stream.tick_seconds)
            if target <= self._origin_stamp or not self.stream.seek(target):
                break
            self._frames = self._stamped()
            key = self._first_key()
            if key is not None and key.seconds <= seconds:
                if before < seconds and key.seconds <= before:  # the seek gained nothing
                    self._worth_a_seek_seconds = 2 * (seconds - key.seconds)
                self.shown, self._following, self._ended = key, None, False
                return
            step_seconds = 2 * step_seconds + 1.0
        self.restart()

    def _first_key(self) -> TimedFrame | None:
        """The first intact key frame after a seek."""
        for _, (stamp, frame) in zip(range(FRAMES_TO_A_KEY), self._frames, strict=False):
            if frame.key_frame and not frame.is_corrupt:
                return TimedFrame(self._seconds(stamp), frame)
        return None
