"""The answer to a request that failed as a whole, in the shape that its API and version have for that.

Answers to: ``org.apache.kafka.common.requests.AbstractRequest.getErrorResponse``. Pure.

One rule serves them all: where the response has an error code of its own, it is set and the lists stay
empty; otherwise every element of the request's list gets an element with the same names and the error.
"""

from __future__ import annotations

import logging

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.codec import response_class
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError

log = logging.getLogger(__name__)


def _refusal(error: Exception) -> ApiError | None:
    """What a client is told of ``error``; ``None`` where no error of the broker's own explains it.

    A lost ZooKeeper connection is REQUEST_TIMED_OUT: Kafka waits for the connection to come back until the client's
    time is over, and clients that are told so try again.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ConnectionLostError | SessionExpiredError):
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT, "This broker has no connection to ZooKeeper now. Try again, or ask another."
        )
    return None


def code_and_message(error: Exception, what: str, unexpected: str | None = None) -> tuple[ErrorCode, str | None]:
    """The error code and message by which a client is told of ``error``.

    One that no error of the broker's own explains is UNKNOWN_SERVER_ERROR with the message ``unexpected``, and goes to
    the log; ``what`` names there what failed.
    """
    refused = _refusal(error)
    if refused is not None:
        return refused.code, refused.message or None
    log.error("%s failed", what, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR, unexpected


def error_response(
    api_key: int, version: int, request: messages.Message | None, code: ErrorCode, message: str | None = None
) -> messages.Message:
    """A response of ``api_key`` in ``version`` that says ``code`` (and ``message`` where there is a field for it)."""
    kind = response_class(api_key)
    response = kind(version=version)
    if not _set_error(response, version, code, message) and request is not None:
        _mirror(request, response, version, code, message)
    return response


def _set_error(item: messages.Message, version: int, code: ErrorCode, message: str | None) -> bool:
    error_code, error_message = item.fields.get("error_code"), item.fields.get("error_message")
    if error_code is None or not error_code.for_version_q(version):
        return False
    setattr(item, error_code.name, code)
    if error_message is not None and error_message.for_version_q(version):
        setattr(item, error_message.name, message)
    return True


def _struct_arrays(item: messages.Message, version: int) -> list[messages.Field]:
    return [field for field in item.fields.values() if field.is_struct_array() and field.for_version_q(version)]


def _carries_error(field: messages.Field, version: int) -> bool:
    fields = field.data_class.fields
    if "error_code" in fields and fields["error_code"].for_version_q(version):
        return True
    return any(
        _carries_error(inner, version)
        for inner in fields.values()
        if inner.is_struct_array() and inner.for_version_q(version)
    )


def _mirror(
    source: messages.Message, target: messages.Message, version: int, code: ErrorCode, message: str | None
) -> None:
    targets = [field for field in _struct_arrays(target, version) if _carries_error(field, version)]
    sources = [field for field in source.fields.values() if field.is_array() and field.for_version_q(version)]
    if not targets or not sources:
        return
    into = targets[0]
    # The request's list of that name, or else its first one.
    chosen = next((field for field in sources if field.name == into.name), sources[0])
    made = []
    for element in getattr(source, chosen.name) or ():
        item = into.data_class(version=version)
        if hasattr(element, "fields"):
            for name in element.fields:
                if name in item.fields and not item.fields[name].is_array() and name not in ("error_code", "tags"):
                    setattr(item, name, getattr(element, name))
        else:
            # A list of plain numbers or names: they are what the response's element is called by.
            name = next(name for name in item.fields if not name.startswith("error"))
            setattr(item, name, element)
        _set_error(item, version, code, message)
        if hasattr(element, "fields"):
            _mirror(element, item, version, code, message)
        made.append(item)
    setattr(target, into.name, made)
