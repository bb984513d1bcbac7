"""``kafkalite learn``: each lab accepts its solution and refuses a wrong one with a message that helps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from integration.conftest import TEST_OVERRIDES
from integration.harness.commands import Outcome, command
from integration.harness.wait import wait_for
from kafkalite.cli.learn import introduction, report
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.learn.catalog import Catalog
from kafkalite.learn.course import Checked, Course
from kafkalite.learn.window_counts import main as count_windows
from kafkalite.learn.workspace import Workspace
from kafkalite.record.batch import LOG_APPEND_TIME

pytestmark = pytest.mark.kafkalite_only


SHARED = {
    name: value for lab in ("deleted-key", "gone-too-soon") for name, value in Catalog().load(lab).lab.needs.properties
}
"""Properties of labs that disturb no other lab, so that all of them can share a cluster."""


class Student:
    """Works at one lab on a cluster that all labs of this file share."""

    def __init__(self, cluster: LocalCluster, directory: Path, lab: str) -> None:
        self.cluster = cluster
        self.course = Course(Catalog(), directory)
        self.lab = self.course.catalog.load(lab)
        self.workspace = Workspace(cluster, directory)
        self.course.prepare(self.lab, self.workspace)
        assert "$" not in introduction(self.lab, self.workspace), "a name in the text has no value"

    def run(self, name: str, *arguments: object, stdin: str = "", code: int | None = 0) -> Outcome:
        """A command of the student, at the brokers."""
        return command(name, "--bootstrap-server", self.cluster.bootstrap, *arguments, stdin=stdin, code=code)

    def produce(self, topic: str, lines: str, *flags: object) -> None:
        self.run("produce", "--topic", topic, *flags, stdin=lines)

    def check(self, answer: str = "") -> Checked:
        self.workspace.answer = answer
        return self.course.check(self.lab, self.workspace)

    def refused(self, *parts: str, answer: str = "") -> None:
        """The check refuses, and its message has each of ``parts``."""
        checked = self.check(answer)
        said = report(self.lab, self.workspace, checked)
        assert not checked.done, said
        assert "not yet" in said
        assert all(part in said for part in parts), said

    def predict(self, letter: str) -> None:
        self.refused("There is no prediction")
        self.course.predict(self.lab, letter)

    def done(self, outcome: str, answer: str = "") -> None:
        """The check accepts, soon, and what happened is ``outcome``."""
        checked = wait_for(lambda: self._if_done(answer), f"{self.lab.name} to be done")
        assert checked is not None
        assert checked.outcome == outcome
        assert "The lab is done" in report(self.lab, self.workspace, checked)
        assert self.course.progress.of(self.lab.name).done

    def _if_done(self, answer: str) -> Checked | None:
        checked = self.check(answer)
        return checked if checked.done else None


Begin = Callable[[str], Student]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers, because no lab needs more."""
    overrides = {**TEST_OVERRIDES, **SHARED, "auto.leader.rebalance.enable": "false"}
    cluster = LocalCluster(tmp_path_factory.mktemp("learn"), 3, overrides=overrides, metrics=True)
    cluster.start()
    yield cluster
    cluster.close()


@pytest.fixture
def begin(cluster: LocalCluster, tmp_path: Path) -> Begin:
    """``begin(lab)`` → a student who has started it."""
    return lambda lab: Student(cluster, tmp_path, lab)


def test_first_records(begin: Begin) -> None:
    student = begin("first-records")
    student.predict("c")
    student.refused("only the three first records", "Append apple and pear")
    student.produce("fruit", "apple\npear\n")
    student.done("b")


def test_key_and_partition(begin: Begin) -> None:
    student = begin("key-and-partition")
    student.predict("b")
    student.produce("rides", "ann,1\nbob,1\n")
    student.refused("2 records have no key", "parse.key=true")
    flags = ("--property", "parse.key=true", "--property", "key.separator=,")
    student.produce("rides", "ann,1\nbob,1\nann,2\nbob,2\nann,3\nbob,3\n", *flags)
    student.done("b")


def test_start_of_a_log(begin: Begin, tmp_path: Path) -> None:
    student = begin("start-of-a-log")
    student.predict("c")
    student.refused("The log begins at offset 0", "look for DeleteRecords", "Append a record")
    plan = tmp_path / "offsets.json"
    plan.write_text('{"partitions": [{"topic": "queue", "partition": 0, "offset": 4}]}')
    student.run("delete-records", "--offset-json-file", plan)
    student.refused("begins at offset 4", "Append a record")
    student.produce("queue", "job 6\n")
    student.done("c")


def test_key_in_two_places(begin: Begin) -> None:
    student = begin("key-in-two-places")
    student.predict("a")
    student.refused("The topic has one partition")
    student.run("topics", "--alter", "--topic", "orders", "--partitions", "4")
    wait_for(lambda: student.workspace.has_leader("orders", 3), "the new partitions")
    student.refused("in one partition only", "Produce records with the keys")
    lines = "".join(f"customer-{number},again\n" for number in range(8))
    student.produce("orders", lines, "--property", "parse.key=true", "--property", "key.separator=,")
    student.done("b")


def test_segment_names(begin: Begin) -> None:
    student = begin("segment-names")
    student.predict("b")
    student.produce("clicks", "x\n")
    student.refused("1 of 3 segments", "when the next batch does not fit")
    student.produce("clicks", f"{'x' * 300}\n" * 8, "--sync")
    student.done("b")


def test_which_segment(begin: Begin) -> None:
    student = begin("which-segment")
    student.predict("b")
    student.refused("There is no answer")
    files = student.workspace.files("ledger")
    [file] = [each for each in files.segments() if b"here" in each.read_bytes()]
    student.refused("That is the record's own offset", answer="17")
    student.refused("does not have the record", answer="0")
    student.refused("No segment has this base offset", answer="99")
    student.done("b", answer=str(int(file.stem)))


def test_who_is_alive(begin: Begin) -> None:
    student = begin("who-is-alive")
    student.predict("b")
    victim = int(student.workspace.notes()["victim"])
    student.refused(f"Broker {victim} runs", "kill -9")
    student.cluster.kill_broker(victim)
    student.done("b")
    student.cluster.start_broker(victim)


def test_last_to_register(begin: Begin) -> None:
    student = begin("last-to-register")
    student.predict("a")
    student.refused("There is no answer")
    student.refused("The answer 1 is not right", "compare the creation zxids", answer="1")
    student.done("b", answer="2")


def test_next_controller(begin: Begin) -> None:
    student = begin("next-controller")
    student.predict("a")
    student.refused("as at the start", "Delete the znode /controller")
    command("zk", "delete", "--zookeeper", student.cluster.zookeeper, "--path", "/controller")
    student.done("b")


def test_nothing_is_decided(begin: Begin) -> None:
    student = begin("nothing-is-decided")
    student.predict("a")
    student.refused("names broker 9, and is persistent", "belongs to no session", "Only a controller elects")
    path = ("--zookeeper", student.cluster.zookeeper, "--path", "/controller")
    student.refused("Write a record to it before")
    student.produce("stock", "meanwhile\n")
    # A claim that names a broker which lives is still no claim of that broker.
    command("zk", "set", *path, "--data", '{"version":2,"brokerid":1,"timestamp":"0","kraftControllerEpoch":-1}')
    student.refused("names broker 1, and is persistent")
    command("zk", "delete", *path)
    student.done("b")


def test_isr_shrinks(begin: Begin) -> None:
    student = begin("isr-shrinks")
    student.predict("a")
    leader = int(student.workspace.notes()["leader"])
    student.refused(f"Broker {leader} is not out", "kill -9")
    student.cluster.kill_broker(leader)
    wait_for(lambda: "ISR is" in report(student.lab, student.workspace, student.check()), "another leader")
    student.refused("Write the record `after`")
    student.produce("trades", "after\n", "--request-required-acks", "all")
    student.done("b")
    student.cluster.start_broker(leader)


def test_lost_record(begin: Begin) -> None:
    student = begin("lost-record")
    student.predict("a")
    leader = int(student.workspace.notes()["leader"])
    student.refused(f"Broker {leader} runs", "It must die while it alone has one")
    followers = [each for each in student.cluster.broker_ids if each != leader]
    for follower in followers:
        student.cluster.pause_broker(follower)
    # Two, because the first may answer a Fetch request that was waiting when its follower was paused.
    flags = ("--topic", "journal", "--request-required-acks", "1", "--sync")
    command("produce", "--bootstrap-server", student.cluster.address(leader), *flags, stdin="one\ntwo\n")
    student.cluster.kill_broker(leader)
    for follower in followers:
        student.cluster.resume_broker(follower)
    wait_for(lambda: "is lost" in report(student.lab, student.workspace, student.check()), "another leader")
    student.refused("Append a record", "min.insync.replicas is 1", "may be acknowledged that only the leader has")
    student.produce("journal", "three\nfour\n", "--sync")
    student.run("configs", "--alter", "--topic", "journal", "--add-config", "min.insync.replicas=3")
    student.refused("No record can be written any more", "The leader alone is waited for", answer="1")
    student.run("configs", "--alter", "--topic", "journal", "--add-config", "min.insync.replicas=2")
    student.done("b", answer="all")
    student.cluster.start_broker(leader)


def test_batches_on_disk(begin: Begin) -> None:
    student = begin("batches-on-disk")
    student.predict("a")
    lines = "".join(f"{number}\n" for number in range(20))
    student.produce("metrics", lines, "--sync")
    student.refused("20 batches have one record", "send twenty records at once")
    student.produce("metrics", lines, "--timeout", "100")
    student.done("c")


def test_too_large(begin: Begin) -> None:
    student = begin("too-large")
    student.predict("c")
    letters = f"{'a' * 5000}\n"
    student.run("produce", "--topic", "letters", stdin=letters, code=None)
    student.refused("has 0 bytes", "the value, or the batch it gets?")
    student.run("configs", "--alter", "--topic", "letters", "--add-config", "max.message.bytes=900")
    student.refused("Set max.message.bytes to 500 again")
    student.run("configs", "--alter", "--topic", "letters", "--add-config", "max.message.bytes=500")
    student.run("produce", "--topic", "letters", "--compression-codec", "gzip", stdin=letters)
    student.done("b")


def test_rewind(begin: Begin) -> None:
    student = begin("rewind")
    student.predict("a")
    flags = ("--group", "audit", "--topic", "visits", "--reset-offsets", "--to-earliest")
    student.run("groups", *flags)
    student.refused("The offset of audit is 10", "changes nothing without --execute")
    student.run("groups", *flags, "--execute")
    student.done("b")


def test_silent_group(begin: Begin) -> None:
    student = begin("silent-group")
    student.predict("c")
    student.refused("The offset of sorters is 1000", "The log ends at 10")
    flags = ("--group", "sorters", "--topic", "parcels", "--reset-offsets")
    student.run("groups", *flags, "--to-latest", "--execute")
    student.refused("The records 0 to 9 are not read")
    student.run("groups", *flags, "--to-earliest", "--execute")
    student.done("b")


def test_work_done_twice(begin: Begin) -> None:
    student = begin("work-done-twice")
    student.predict("a")
    student.refused("None for sale-6 yet", "The offset of billing is 3")

    def work(group: str, records: int, results: str) -> None:
        flags = ("--topic", "sales", "--group", group, "--max-messages", records)
        student.produce(results, student.run("consume", *flags).out)

    work("billing", 3, "bills")
    reset = ("--group", "mailing", "--topic", "sales", "--reset-offsets", "--execute", "--to-offset")
    student.run("groups", *reset, 5)
    work("mailing", 1, "receipts")
    student.refused("None for sale-5", "began too late")
    student.run("groups", *reset, 4)
    work("mailing", 1, "receipts")
    student.run("groups", *reset, 6)
    student.done("b")


def test_stuck_readers(begin: Begin) -> None:
    student = begin("stuck-readers")
    student.predict("a")
    student.refused("sees 3 of 7 payments", "It waits at offset 3", "is Ongoing")
    student.run("transactions", "abort", "--topic", "payments", "--partition", "0", "--start-offset", "3")
    student.refused("sees 7 of 7 payments", "could go on with it")
    student.run("transactions", "forceTerminateTransaction", "--transactional-id", "transfer")
    student.done("b")


def test_deleted_key(begin: Begin) -> None:
    student = begin("deleted-key")
    student.predict("a")
    student.refused("cleanup.policy is delete", "Set cleanup.policy to compact")
    student.run("configs", "--alter", "--topic", "prices", "--add-config", "cleanup.policy=compact")
    flags = ("--property", "parse.key=true", "--property", "key.separator=:", "--property", "null.marker=NULL")
    student.produce("prices", "milk:\n", *flags)
    student.refused("An empty value is a value", "Values of milk are in the log")
    student.produce("prices", "milk:NULL\n", *flags)
    student.produce("prices", "coffee:4\ncoffee:5\ncoffee:6\n", "--sync", *flags)
    student.done("b")


def test_gone_too_soon(begin: Begin) -> None:
    student = begin("gone-too-soon")
    student.predict("a")
    student.refused("6 readings were written, and 0 are left", "Whose clock sets those?")
    as_program = ("--timestamp", student.workspace.notes()["seconds"])
    student.run("configs", "--alter", "--topic", "readings", "--add-config", "retention.ms=-1")
    student.produce("readings", "21.5\n22.5\n", *as_program)
    student.refused("Records must go after seven days")
    settings = "retention.ms=604800000,message.timestamp.type=LogAppendTime"
    student.run("configs", "--alter", "--topic", "readings", "--add-config", settings)

    def stamped() -> bool:
        student.produce("readings", "23.5\n24.5\n", *as_program)
        return student.workspace.files("readings").batches()[-1].timestamp_type == LOG_APPEND_TIME

    wait_for(stamped, "the broker to read the configuration")
    student.done("b")


def test_each_lab_has_a_student() -> None:
    """A lab without a test of its own would not be known to work."""
    played = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert set(Catalog().names()) <= played


def test_a_lab_from_start_to_stop_by_the_commands(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path))
    said = command("learn", "start", "first-records", *state).out
    try:
        assert "Dashboard: http://" in said
        bootstrap = json.loads((tmp_path / "attempt" / "cluster" / "cluster.json").read_text())["bootstrap"]
        assert f"--bootstrap-server {bootstrap} --topic fruit" in said
        assert "learn predict a|b|c" in command("learn", "check", *state, code=1).out
        command("learn", "predict", "b", *state)
        assert "Hint 1 of 2" in command("learn", "hint", *state).out
        command("produce", "--bootstrap-server", bootstrap, "--topic", "fruit", stdin="apple\npear\n")
        assert command("learn", "check", "--json", *state).json["outcome"] == "b"
        [entry] = [
            each for each in command("learn", "list", "--json", *state).json["labs"] if each["name"] == "first-records"
        ]
        assert (entry["done"], entry["running"], entry["chapter"]) == (True, True, 1)
    finally:
        command("learn", "stop", *state)
    results = command("learn", "export", "--student", "s1", *state).json
    assert (results["student"], results["done"]) == ("s1", 1)
    assert "no lab is running" in command("learn", "stop", *state, code=1).err


def test_refused_writes(begin: Begin) -> None:
    student = begin("refused-writes")
    student.predict("a")
    notes = student.workspace.notes()
    leader, follower = int(notes["leader"]), int(notes["follower"])
    student.refused(f"Broker {follower} runs", "kill -9")
    student.cluster.kill_broker(follower)
    wait_for(lambda: "the leader is alone" in report(student.lab, student.workspace, student.check()), "a small ISR")
    once = ("--request-required-acks", "all", "--producer-property", "retries=0")
    student.refused(f"Broker {leader} has refused 0 writes", "before you change the topic")
    assert "ot enough" in student.run("produce", "--topic", "bookings", *once, stdin="one\n", code=1).err
    student.produce("bookings", "two\n", "--request-required-acks", "1")
    student.refused("does not have the record `three`", "an ISR of min.insync.replicas")
    student.run("configs", "--alter", "--topic", "bookings", "--add-config", "min.insync.replicas=1")
    # The leader may learn of the change after the command has ended.
    wait_for(lambda: student.run("produce", "--topic", "bookings", *once, stdin="three\n"), "the write")
    student.done("b")
    student.cluster.start_broker(follower)


def test_which_broker_lied(begin: Begin, tmp_path: Path) -> None:
    student = begin("which-broker-lied")
    student.predict("a")
    notes = student.workspace.notes()
    leader, liar = int(notes["leader"]), int(notes["liar"])
    student.refused("There is no answer", "The three logs are not equal")
    student.refused(f"The answer {leader} is not right", "agrees with no other", answer=str(leader))
    student.refused(f"The log of broker {liar} was changed", "move the replica away and back", answer=str(liar))
    others = [leader, *({1, 2, 3} - {leader, liar})]
    for replicas in (others, [*others, liar]):
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"partitions": [{"topic": "accounts", "partition": 0, "replicas": replicas}]}))
        student.run("reassign", "--execute", "--reassignment-json-file", plan)
        verify = partial(student.run, "reassign", "--verify", "--reassignment-json-file", plan)
        wait_for(verify, "the move")
    student.done("c", answer=str(liar))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A secured broker for the labs of chapter 12."""
    directory = tmp_path_factory.mktemp("secured")
    security = ClusterSecurity.create(directory)
    cluster = LocalCluster(directory, 1, overrides=TEST_OVERRIDES, security=security)
    cluster.start()
    yield cluster
    cluster.close()


def test_least_rules(secured: LocalCluster, tmp_path: Path) -> None:
    student = Student(secured, tmp_path, "least-rules")
    files = student.workspace.values()
    as_client = ("--producer.config", files["client"])
    group = ("--topic", "salaries", "--group", "payroll", "--from-beginning", "--max-messages", "1")

    def rules(*flags: str) -> None:
        student.run("acls", "--command-config", files["admin"], *flags)

    def allow(*flags: str) -> None:
        rules("--add", "--allow-principal", "User:client", *flags)

    student.predict("a")
    student.refused("client may: nothing", "the error names the resource", "The topic has 0 records")
    assert student.run("produce", *as_client, "--topic", "salaries", stdin="4200\n", code=None).code
    allow("--producer", "--topic", "salaries")
    student.produce("salaries", "4200\n", *as_client)
    student.refused("More than is needed: Create on Topic salaries, Describe on Topic salaries")
    rules("--remove", "--force", "--allow-principal", "User:client", "--producer", "--topic", "salaries")
    allow("--operation", "Write", "--operation", "Read", "--topic", "salaries")
    student.refused("Rules are missing", "The offset of payroll is None")
    allow("--operation", "Read", "--group", "payroll")
    assert "4200" in student.run("consume", "--consumer.config", files["client"], *group).out
    student.done("b")


def test_hidden_deny(secured: LocalCluster, tmp_path: Path) -> None:
    student = Student(secured, tmp_path, "hidden-deny")
    change = ("acls", "--command-config", student.workspace.values()["admin"], "--operation", "Read")
    student.predict("a")
    student.refused("client reads: refused", "another one denies it")
    reader = ("--consumer.config", student.workspace.values()["client"], "--group", "readers", "--from-beginning")
    assert "Topic authorization failed" in student.run("consume", *reader, "--topic", "reports", code=1).err
    student.run(*change, "--add", "--allow-principal", "User:client", "--topic", "*")
    student.refused("Read on *, Read on reports", "the fault is not that too little is allowed")
    student.run(*change, "--remove", "--force", "--allow-principal", "User:client", "--topic", "*")
    prefix = ("--topic", "rep", "--resource-pattern-type", "prefixed")
    student.run(*change, "--remove", "--force", "--deny-principal", "User:client", *prefix)
    student.done("c")


def test_late_ride(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    student = begin("late-ride")

    def run(target: str, delay: int, late: int) -> None:
        where = ("--bootstrap-server", student.cluster.bootstrap, "--from", "taxi-rides", "--to", target)
        count_windows([*where, "--delay", str(delay)])
        assert f"{late} events were too late" in capsys.readouterr().out

    student.predict("b")
    student.refused("counts-10: no counts", "Run the job with --delay 10")
    run("counts-10", 10, late=1)
    run("counts-all", 21, late=1)
    student.refused("counts-all: 10:00 has 3", "Which window closes too early")
    run("counts-all", 22, late=0)
    student.done("c")


def test_sum_of_updates(begin: Begin) -> None:
    student = begin("sum-of-updates")
    student.predict("a")
    student.refused("There is no answer", "cleanup.policy of trip-counts is delete")
    student.refused("it adds up counts that replace each other", answer=student.workspace.notes()["sum"])
    student.refused("the job has written each count twice", answer="20")
    student.run("configs", "--alter", "--topic", "trip-counts", "--add-config", "cleanup.policy=compact")
    student.done("b", answer="10")


def test_znodes_of_a_topic(begin: Begin) -> None:
    student = begin("znodes-of-a-topic")
    student.predict("b")
    student.refused("The topic cars has 0 partitions", "Create it with --partitions 3")
    flags = ("--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=3600000")
    student.run("topics", "--create", "--topic", "cars", *flags)
    wait_for(lambda: all(student.workspace.has_leader("cars", number) for number in range(3)), "leaders")
    student.refused("There is no answer")
    student.refused("there are znodes in another one", answer="8")
    student.done("c", answer="9")


def test_no_history(begin: Begin) -> None:
    student = begin("no-history")
    student.predict("a")
    student.refused("There is no answer")
    state = student.workspace.state("votes")
    assert state is not None
    student.refused("That is the leader epoch", answer=str(state["leader_epoch"]))
    [row] = command(
        "zk",
        "tree",
        "--zookeeper",
        student.cluster.zookeeper,
        "--path",
        "/brokers/topics/votes/partitions/0/state",
        "--json",
    ).json
    student.done("c", answer=str(row["version"]))
