"""ApiVersions 0-4: which versions this broker serves (KIP-35), and which software the client is.

- 1: throttle time (KIP-124)
- 2: the client throttles itself (KIP-219)
- 3: name and version of the client's software (KIP-511); flexible (KIP-482)
- 4: features whose oldest version is 0 (KAFKA-17011)

Answers to: ``KafkaApis.handleApiVersionsRequest``. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import served, serves
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.network.request import ConnectionInfo
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_response

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@serves(ApiKey.API_VERSIONS, 0, 4)
def handle(context: RequestContext, request: messages.ApiVersionsRequest) -> bytes:
    """The same bytes for all clients, encoded once a version."""
    if not _take_software(context.connection, context.version, request):
        raise ApiError(ErrorCode.INVALID_REQUEST, "client_software_name or client_software_version is not a name")
    return _encoded(context.version)


def answer_before_authentication(connection: ConnectionInfo, version: int, body: memoryview) -> tuple[bytes, bool]:
    """The answer to a client that has not authenticated yet, and whether it is no error.

    Raises :class:`kafkalite.protocol.errors.ProtocolError` for a body that cannot be decoded.
    """
    if version not in served()[ApiKey.API_VERSIONS].versions:
        return unsupported_version_answer(), False
    request = decode_request(ApiKey.API_VERSIONS, version, body)
    assert isinstance(request, messages.ApiVersionsRequest)
    if not _take_software(connection, version, request):
        return encode_response(ApiKey.API_VERSIONS, version, _response(version, ErrorCode.INVALID_REQUEST, [])), False
    return _encoded(version), True


def _take_software(connection: ConnectionInfo, version: int, request: messages.ApiVersionsRequest) -> bool:
    """Note the software of the client; whether the request has proper names for it."""
    if version >= 3:
        name, software_version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(software_version)):
            return False
        connection.software_name = name
        connection.software_version = software_version
    return True


@lru_cache(maxsize=8)
def _encoded(version: int) -> bytes:
    return encode_response(ApiKey.API_VERSIONS, version, _response(version, ErrorCode.NONE, list(served())))


@lru_cache(maxsize=1)
def unsupported_version_answer() -> bytes:
    """Version 0, which every client reads, with UNSUPPORTED_VERSION and the versions of ApiVersions itself."""
    response = _response(0, ErrorCode.UNSUPPORTED_VERSION, [ApiKey.API_VERSIONS])
    return encode_response(ApiKey.API_VERSIONS, 0, response)


def _response(version: int, error: ErrorCode, keys: list[ApiKey]) -> messages.ApiVersionsResponse:
    kind = messages.ApiVersionsResponse
    ranges = {key: served()[key].versions for key in keys}
    entries = [
        kind.ApiVersion(version=version, api_key=int(key), min_version=versions.min, max_version=versions.max)
        for key, versions in ranges.items()
    ]
    return kind(version=version, error_code=error, api_keys=entries)
