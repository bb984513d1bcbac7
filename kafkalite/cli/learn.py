"""``kafkalite learn``: the labs of the course, on a cluster of this machine.

Answers to: nothing in Kafka. Reactor shell (processes, client library).
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.cli.clients import add_json, print_json, print_table
from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from kafkalite.learn.catalog import LoadedLab
    from kafkalite.learn.course import Checked, Course
    from kafkalite.learn.workspace import Workspace

EXAMPLES = (
    "kafkalite learn list",
    "kafkalite learn list --labs my-labs --json",
    "kafkalite learn start first-records",
    "kafkalite learn predict b",
    "kafkalite learn check",
    "kafkalite learn check 42",
    "kafkalite learn hint",
    "kafkalite learn reset",
    "kafkalite learn stop",
    "kafkalite learn export --output results.json",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``learn`` with its actions."""
    parser = subparsers.add_parser("learn", help="the labs of the course, on a cluster of this machine")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="list the labs, and which are done")
    add_json(listed)
    start = actions.add_parser("start", help="start a lab on a new cluster, and show its tasks")
    start.add_argument("lab", metavar="LAB")
    start.add_argument("--no-dashboard", action="store_true", help="serve no live page of the cluster")
    predict = actions.add_parser("predict", help="say what will happen, before it happens")
    predict.add_argument("letter", metavar="LETTER")
    check = actions.add_parser("check", help="look at the real state; exit code 0 if the lab is done, else 1")
    check.add_argument("answer", nargs="?", default="", metavar="ANSWER", help="where the lab asks for one")
    add_json(check)
    hint = actions.add_parser("hint", help="show the next hint")
    reset = actions.add_parser("reset", help="start the running lab again, on a new cluster")
    stop = actions.add_parser("stop", help="stop the cluster of the running lab; the progress stays")
    export = actions.add_parser("export", help="write the results of the student as JSON")
    export.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output")
    export.add_argument("--student", default="", metavar="NAME", help="written into the results")
    for each in (listed, start, predict, check, hint, reset, stop, export):
        each.add_argument(
            "--labs", type=Path, action="append", default=[], metavar="DIR", help="a folder with further labs"
        )
        each.add_argument(
            "--state",
            type=Path,
            metavar="DIR",
            help="where progress and cluster are kept (default: $KAFKALITE_LEARN_STATE, or kafkalite/learn in "
            "$XDG_STATE_HOME)",
        )


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    from kafkalite.learn.catalog import OWN_LABS, Catalog
    from kafkalite.learn.course import Course
    from kafkalite.learn.progress import state_directory

    # A teacher's folder stays known to the commands that follow, as long as the variable is set.
    more = [Path(each) for each in os.environ.get("KAFKALITE_LABS", "").split(os.pathsep) if each]
    course = Course(Catalog([OWN_LABS, *more, *args.labs]), state_directory(args.state))
    actions = {
        "list": show_list,
        "start": start,
        "predict": predict,
        "check": check,
        "hint": hint,
        "reset": reset,
        "stop": stop,
        "export": export,
    }
    return actions[args.action](course, args)


def show_list(course: Course, args: argparse.Namespace) -> int:
    """``learn list``."""
    labs = [
        {
            "name": each.name,
            "chapter": each.lab.chapter,
            "kind": str(each.lab.kind),
            "title": each.text.title,
            "done": each.name in course.progress.labs and bool(course.progress.labs[each.name].done),
            "running": each.name == course.progress.current,
        }
        for each in course.catalog.labs()
    ]
    if args.json:
        print_json({"labs": labs})
        return 0
    words = {(True, False): "done", (True, True): "done, running", (False, True): "running", (False, False): ""}
    rows: list[list[object]] = [
        [each["chapter"], each["name"], each["kind"], words[bool(each["done"]), bool(each["running"])], each["title"]]
        for each in labs
    ]
    print_table(["chapter", "lab", "kind", "", "title"], rows)
    print(f"{sum(bool(each['done']) for each in labs)} of {len(labs)} done; kafkalite learn start LAB starts one")
    return 0


def start(course: Course, args: argparse.Namespace) -> int:
    """``learn start``."""
    return _start(course, args.lab, dashboard=not args.no_dashboard)


def _start(course: Course, name: str, *, dashboard: bool) -> int:
    address = course.start(name, dashboard=dashboard)
    print(introduction(course.running(), course.workspace(), address))
    return 0


def introduction(loaded: LoadedLab, workspace: Workspace, dashboard: str = "") -> str:
    """What the student reads first: story, cluster, question and tasks."""
    from kafkalite.learn.lab_text import filled

    text = loaded.text
    values = workspace.values()
    page = f"\nDashboard: {dashboard}" if dashboard else ""
    parts = [
        f"{text.title} (lab {loaded.name}, chapter {loaded.lab.chapter}, {loaded.lab.kind})",
        filled(text.story, values),
        f"Brokers:   {values['bootstrap']}\nZooKeeper: {values['zookeeper']}\nFiles:     {values['directory']}{page}",
        f"PREDICT\n{filled(text.predict, values)}\n\n  kafkalite learn predict {'|'.join(text.choices)}",
        f"TASKS\n{filled(text.tasks, values)}\n\n  kafkalite learn check     kafkalite learn hint",
    ]
    return "\n\n".join(part for part in parts if part)


def predict(course: Course, args: argparse.Namespace) -> int:
    """``learn predict``."""
    loaded = course.running()
    course.predict(loaded, args.letter)
    print(f"You predict {args.letter}: {loaded.text.choices[args.letter]}")
    return 0


def check(course: Course, args: argparse.Namespace) -> int:
    """``learn check``."""
    loaded = course.running()
    workspace = course.workspace(args.answer)
    checked = course.check(loaded, workspace)
    if args.json:
        print_json({"lab": loaded.name, "done": checked.done, **asdict(checked)})
    else:
        print(report(loaded, workspace, checked))
    return 0 if checked.done else 1


def report(loaded: LoadedLab, workspace: Workspace, checked: Checked) -> str:
    """The findings; of a lab that is done, also what became of the prediction, and the explanation."""
    from kafkalite.learn.lab_text import filled

    lines = []
    for finding in checked.findings:
        lines.append(f"{'right  ' if finding.right else 'not yet'} {finding.what}")
        if finding.why:
            lines.append(f"        {finding.why}")
    if not checked.done:
        return "\n".join([*lines, "", "Not done yet. kafkalite learn hint gives a hint."])
    values, choices = workspace.values(), loaded.text.choices
    lines += ["", f"You predicted {checked.prediction}: {filled(choices[checked.prediction], values)}"]
    if checked.outcome == checked.prediction:
        lines.append("That is what happened.")
    else:
        lines.append(f"What happened is {checked.outcome}: {filled(choices[checked.outcome], values)}")
    lines += ["", filled(loaded.text.happened, values), "", "Sources", loaded.text.sources, "", "The lab is done."]
    return "\n".join(lines)


def hint(course: Course, _: argparse.Namespace) -> int:
    """``learn hint``."""
    loaded = course.running()
    number, text = course.hint(loaded, course.workspace())
    print(f"Hint {number} of {len(loaded.text.hints)}: {text}")
    return 0


def reset(course: Course, _: argparse.Namespace) -> int:
    """``learn reset``."""
    return _start(course, course.running().name, dashboard=True)


def stop(course: Course, _: argparse.Namespace) -> int:
    """``learn stop``."""
    if not course.stop():
        raise StartupError("no lab is running")
    return 0


def export(course: Course, args: argparse.Namespace) -> int:
    """``learn export``."""
    import json

    labs = [
        {"name": each.name, "chapter": each.lab.chapter, **asdict(course.progress.of(each.name))}
        for each in course.catalog.labs()
    ]
    results = {"student": args.student, "done": sum(bool(each["done"]) for each in labs), "labs": labs}
    if args.output is None:
        print_json(results)
    else:
        args.output.write_text(json.dumps(results, indent=2) + "\n")
    return 0
