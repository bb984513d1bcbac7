"""The error codes that a response names, wherever they stand in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.error_counts import error_codes
from kafkalite.common.errors import ErrorCode
from kafkalite.network.request_metrics import RequestChannelMetrics
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from tests.apis.helpers import FakeBroker

Topic = messages.CreateTopicsResponse.CreatableTopicResult
Committed = messages.OffsetCommitResponse.OffsetCommitResponseTopic


@pytest.mark.parametrize(
    ("response", "codes"),
    [
        (messages.HeartbeatResponse(version=4), []),
        (messages.HeartbeatResponse(version=4, error_code=25), [25]),
        (
            messages.CreateTopicsResponse(version=7, topics=[Topic(error_code=36), Topic(), Topic(error_code=37)]),
            [36, 37],
        ),
        (
            messages.OffsetCommitResponse(
                version=8, topics=[Committed(partitions=[Committed.OffsetCommitResponsePartition(error_code=22)] * 2)]
            ),
            [22, 22],
        ),
        (messages.ListGroupsResponse(version=4, groups=[]), []),
    ],
)
def test_the_errors_of_a_response_and_of_its_parts(response: messages.Message, codes: list[int]) -> None:
    assert list(error_codes(response)) == codes


def test_errors_of_answers_are_counted_by_request() -> None:
    broker = FakeBroker()
    metrics = RequestChannelMetrics([(int(key), 20) for key in ApiKey])
    broker.dispatcher = Dispatcher(replace(broker.services, request_metrics=metrics))
    broker.call(ApiKey.HEARTBEAT, 4, group_id="", generation_id=1, member_id="m")
    broker.call(ApiKey.LIST_GROUPS, 4)
    assert {key: api.errors for key, api in metrics.apis.items() if api.failed} == {
        ApiKey.HEARTBEAT: {ErrorCode.INVALID_GROUP_ID: 1}
    }
