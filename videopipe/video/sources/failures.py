"""Errors of the drivers of fsspec in words, and whether another attempt may succeed."""

import re
from collections.abc import Mapping

NO_SUCH_OBJECT = "no such object"
CREDENTIALS = (
    "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket "
    "FSSPEC_S3_ANON=true"
)
TEMPORARY_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError, ValueError)


def explain(error: BaseException) -> tuple[bool, str]:
    """Whether another attempt may succeed, and the reason in words.

    The HTTP driver reports every failure of its first request as a missing file; the cause is
    the error behind it. That of the driver for memory is a KeyError.
    """
    behind = error.__cause__ if isinstance(error, FileNotFoundError) else None
    status, code = _answer(behind or error)
    name, words = type(error).__name__, _words(error)
    if isinstance(error, PermissionError) or status in (401, 403) or words.startswith("Forbidden"):
        known = words if isinstance(error, OSError) and behind is None else f"status {status}"
        return False, f"access is denied ({known}); check the name and the credentials"
    if code == "NoSuchBucket":
        return False, f"{NO_SUCH_OBJECT}: there is no bucket of this name"
    if status in (404, 410):
        return False, NO_SUCH_OBJECT
    if status is not None:
        return status in TEMPORARY_STATUSES, f"the server answers with status {status}"
    if behind is not None and not isinstance(behind, FileNotFoundError | KeyError):
        return explain(behind)
    if isinstance(error, FileNotFoundError):
        return False, NO_SUCH_OBJECT
    if name in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
        return False, f"there are no credentials ({words}); {CREDENTIALS}"
    if isinstance(error, TimeoutError):
        return True, "the server does not answer in time"
    if name == "ClientPayloadError":
        return True, "the connection ended before the end of the answer"
    if name in ("InvalidURL", "InvalidUrlClientError"):
        return False, "is not a valid URL"
    return not isinstance(error, PERMANENT), words


def _answer(error: BaseException) -> tuple[int | None, str]:
    """(HTTP status, code in words) of the answer that a driver reports as this error."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # of S3
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status, str(response.get("Error", {}).get("Code", ""))
    for found, name in ((error, "status"), (response, "status_code"), (error, "code")):
        status = getattr(found, name, None)  # the last one is Google's
        if isinstance(status, int):
            return status, ""
    return None, ""


def _words(error: BaseException) -> str:
    """The text of an error in one line, without what aiohttp says of TLS for every address."""
    words = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r" ssl:\S+", "", words)
