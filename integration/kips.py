"""The Kafka Improvement Proposals that this repository names: their titles, and where each is named.

``docs/kips.md`` is made from it by ``python -m integration.generated_docs``. :data:`TITLES` is the only place that
holds titles; ``tests/test_kips.py`` fails when a number is named that it lacks, or has one that is named nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/kips.md"
NUMBER = re.compile(r"\bKIP-(\d+)\b")

TITLES: dict[int, str] = {
    4: "Command line and centralized administrative operations",
    11: "Authorization Interface",
    12: "Kafka Sasl/Kerberos and SSL implementation",
    13: "Quotas",
    26: "Add Kafka Connect framework for data import/export",
    27: "Conditional Publish",
    28: "Add a processor client",
    32: "Add timestamps to Kafka message",
    33: "Add a time based log index",
    35: "Retrieving protocol version",
    36: "Rack aware replica assignment",
    38: "ZooKeeper Authentication",
    43: "Kafka SASL enhancements",
    48: "Delegation token support for Kafka",
    62: "Allow consumer to send heartbeats from a background thread",
    73: "Replication Quotas",
    74: "Add Fetch Response Size Limit in Bytes",
    78: "Cluster Id",
    79: "ListOffsetRequest/ListOffsetResponse v1 and add timestamp search methods to the new consumer",
    84: "Support SASL SCRAM mechanisms",
    88: "OffsetFetch Protocol Update",
    98: "Exactly Once Delivery and Transactional Messaging",
    101: "Alter Replication Protocol to use Leader Epoch rather than High Watermark for Truncation",
    103: "Separation of Internal and External traffic",
    107: "Add deleteRecordsBefore() API in AdminClient",
    110: "Add Codec for ZStandard Compression",
    112: "Handle disk failure for JBOD",
    113: "Support replicas movement between log directories",
    122: "Add Reset Consumer Group Offsets tooling",
    124: "Request rate quotas",
    129: "Streams Exactly-Once Semantics",
    133: "Describe and Alter Configs Admin APIs",
    140: "Add administrative RPCs for adding, deleting, and listing ACLs",
    152: "Improve diagnostics for SASL authentication failures",
    183: "Change PreferredReplicaLeaderElectionCommand to use AdminClient",
    195: "AdminClient.createPartitions",
    207: (
        "Offsets returned by ListOffsetsResponse should be monotonically increasing even during a partition leader "
        "change"
    ),
    211: "Revise Expiration Semantics of Consumer Group Offsets",
    219: "Improve quota throttle communication",
    226: "Dynamic Broker Configuration",
    227: "Introduce Incremental FetchRequests to Increase Partition Scalability",
    229: "DeleteGroups API",
    255: "OAuth Authentication via SASL/OAUTHBEARER",
    279: "Fix log divergence between leader and follower after fast leader fail over",
    290: "Support for Prefixed ACLs",
    291: "Separating controller connections and requests from the data plane",
    320: "Allow fetchers to detect and handle log truncation",
    # The page was read in a copy without its title.
    322: "An error code of its own for DeleteTopics where deletion is disabled (our words)",
    328: "Ability to suppress updates for KTables",
    339: "Create a new IncrementalAlterConfigs API",
    345: "Introduce static membership protocol to reduce consumer rebalances",
    360: "Improve reliability of idempotent/transactional producer",
    368: "Allow SASL Connections to Periodically Re-Authenticate",
    373: "Allow users to create delegation tokens for other users",
    380: "Detect outdated control requests and bounced brokers using broker generation",
    382: "MirrorMaker 2.0",
    392: "Allow consumers to fetch from closest replica",
    394: "Require member.id for initial join group request",
    405: "Kafka Tiered Storage",
    412: "Extend Admin API to support dynamic application log levels",
    429: "Kafka Consumer Incremental Rebalance Protocol",
    430: "Return Authorized Operations in Describe Responses",
    447: "Producer scalability for exactly once semantics",
    455: "Create an Administrative API for Replica Reassignment",
    460: "Admin Leader Election RPC",
    464: "Defaults for AdminClient#createTopic",
    467: "Augment ProduceResponse error messaging for specific culprit records",
    480: "Sticky Partitioner",
    482: "The Kafka Protocol should Support Optional Tagged Fields",
    496: "Administrative API to delete consumer offsets",
    497: "Add inter-broker API to alter ISR",
    500: "Replace ZooKeeper with a Self-Managed Metadata Quorum",
    511: "Collect and Expose Client's Name and Version in the Brokers",
    515: "Enable ZK client to use the new TLS supported authentication",
    516: "Topic Identifiers",
    518: "Allow listing consumer groups per state",
    525: "Return topic metadata and configs in CreateTopics response",
    534: "Retain tombstones and transaction markers for approximately delete.retention.ms milliseconds",
    537: "Increase default zookeeper session timeout",
    545: "support automated consumer offset sync across clusters in MM 2.0",
    546: "Add Client Quota APIs to the Admin Client",
    554: "Add Broker-side SCRAM Config API",
    559: "Make the Kafka Protocol Friendlier with L7 Proxies",
    569: "DescribeConfigsResponse - Update the schema to include additional metadata information of the field",
    570: "Add leader epoch in StopReplicaRequest",
    584: "Versioning scheme for features",
    588: "Allow producers to recover gracefully from transaction timeouts",
    590: "Redirect Zookeeper Mutation Protocols to The Controller",
    595: "A Raft Protocol for the Metadata Quorum",
    599: "Throttle Create Topic, Create Partition and Delete Topic Operations",
    612: "Ability to Limit Connection Creation Rate on Brokers",
    618: "Exactly-Once Support for Source Connectors",
    630: "Kafka Raft Snapshot",
    631: "The Quorum-based Kafka Controller",
    664: "Provide tooling to detect and abort hanging transactions",
    679: "Producer will enable the strongest delivery guarantee by default",
    684: "Support mutual TLS authentication on SASL_SSL listeners",
    699: "Update FindCoordinator to resolve multiple Coordinators at a time",
    700: "Add Describe Cluster API",
    704: "Send a hint to the partition leader to recover the partition",
    709: "Extend OffsetFetch requests to accept multiple group ids",
    710: "Full support for distributed mode in dedicated MirrorMaker 2.0 clusters",
    714: "Client metrics and observability",
    730: "Producer ID generation in KRaft mode",
    734: ("Improve AdminClient.listOffsets to return timestamp and offset for the record with the largest timestamp"),
    764: "Configurable backlog size for creating Acceptor",
    768: "Extend SASL/OAUTHBEARER with Support for OIDC",
    778: "KRaft to KRaft Upgrades",
    784: "Add top-level error code field to DescribeLogDirsResponse",
    794: "Strictly Uniform Sticky Partitioner",
    800: "Add reason to JoinGroupRequest and LeaveGroupRequest",
    814: "Static membership protocol should let the leader skip assignment",
    827: "Expose log dirs total and usable space via Kafka API",
    833: "Mark KRaft as Production Ready",
    848: "The Next Generation of the Consumer Rebalance Protocol",
    853: "KRaft Controller Membership Changes",
    866: "ZooKeeper to KRaft Migration",
    890: "Transactions Server-Side Defense",
    903: "Replicas with stale broker epoch should not be allowed to join the ISR",
    919: "Allow AdminClient to Talk Directly with the KRaft Controller Quorum and add Controller Registration",
    932: "Queues for Kafka",
    937: "Improve Message Timestamp Validation",
    939: "Support Participation in 2PC",
    951: "Leader discovery optimisations for the client",
    966: "Eligible Leader Replicas",
    994: "Minor Enhancements to ListTransactions and DescribeTransactions APIs",
    1005: "Expose EarliestLocalOffset and TieredOffset",
}
"""Number → title, as on the proposal's page in Kafka's wiki, except where a comment says otherwise."""


def texts() -> Iterator[tuple[str, str]]:
    """All files that may name a proposal, with their text."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "zk_schema").glob("*.json")]
    for folder in ("kafkalite", "tests", "integration"):
        files += [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    for file in sorted(files):
        path = file.relative_to(ROOT).as_posix()
        if path not in (PAGE, "integration/kips.py"):
            yield path, file.read_text()


def uses() -> dict[int, list[str]]:
    """Number → the files that name it, in order."""
    found: dict[int, list[str]] = {}
    for path, text in texts():
        for number in {int(each) for each in NUMBER.findall(text)}:
            found.setdefault(number, []).append(path)
    return found


def places(paths: list[str]) -> str:
    """``paths`` for a reader: pages as links, labs, rooms of the package; other files only if there is none."""
    pages = [path.removeprefix("docs/") for path in paths if path.startswith("docs/")]
    labs = [path.split("/")[-2].replace("_", "-") for path in paths if "/labs/" in path]
    rooms = {path.split("/")[1] for path in paths if path.startswith("kafkalite/") and "/labs/" not in path}
    out = [f"[{page.removesuffix('.md')}]({page})" for page in pages]
    out += [f"lab `{name}`" for name in labs]
    out += [f"`kafkalite/{room}`" for room in sorted(rooms)]
    return ", ".join(out or [f"`{path}`" for path in paths])


def kips_document() -> str:
    """``docs/kips.md``. Raises ``KeyError`` for a number without a title."""
    out = [
        "# KIPs",
        "",
        *wrap(
            "The Kafka Improvement Proposals that this documentation and the code name: the title, as on the "
            "proposal's page in [Kafka's wiki](https://cwiki.apache.org/confluence/display/KAFKA/"
            "Kafka+Improvement+Proposals), and the pages, labs and rooms of the code that name it. That it is named "
            "does not say that kafkalite has it: some are named because it does without. This page is made from "
            "`integration/kips.py` by `python -m integration.generated_docs`.",
            118,
        ),
        "",
        "| KIP | title | named in |",
        "|---:|---|---|",
    ]
    out += [f"| {number} | {TITLES[number]} | {places(paths)} |" for number, paths in sorted(uses().items())]
    return "\n".join(out) + "\n"
