"""``kafkalite dump-log``: segments, indexes and producer snapshots as text.

Answers to: ``bin/kafka-dump-log.sh``, ``kafka.tools.DumpLogSegments`` (3.9). Reactor shell (no reactor needed).
"""

from __future__ import annotations

import argparse
import io
import struct
import sys
from pathlib import Path

from kafkalite.cli.main import UsageError
from kafkalite.cli.segment_dump import MAX_BYTES, Decoder, DumpOptions, Findings, IndexDumper, LogDumper, decode_string
from kafkalite.common.errors import ApiError
from kafkalite.record.batch import CorruptRecordError


def _decode_long(data: bytes) -> str:
    return str(struct.unpack(">q", data[:8])[0])


def _decode_integer(data: bytes) -> str:
    return str(struct.unpack(">i", data[:4])[0])


DECODERS: dict[str, Decoder] = {
    "StringDecoder": decode_string,
    "LongDecoder": _decode_long,
    "IntegerDecoder": _decode_integer,
    "DefaultDecoder": bytes.hex,
}
"""Kafka's decoder classes by their simple names (Kafka's own DefaultDecoder prints an object's address, ours hex)."""
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
EXAMPLES = ("kafkalite dump-log --files data/flights-0/00000000000000000000.log --print-data-log",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``dump-log`` with the flags of ``kafka-dump-log.sh``."""
    parser = subparsers.add_parser("dump-log", help="print the contents of segment and index files")
    parser.add_argument("--files", required=True, metavar="F1,F2", help="comma-separated list of files to be dumped")
    parser.add_argument("--deep-iteration", action="store_true", help="print every record, not only batches")
    parser.add_argument(
        "--print-data-log", action="store_true", help="print keys and values as well (implies --deep-iteration)"
    )
    parser.add_argument("--index-sanity-check", action="store_true", help="only check what a starting broker checks")
    parser.add_argument("--verify-index-only", action="store_true", help="compare indexes to the log, print no entries")
    parser.add_argument("--max-message-size", type=int, default=5242880, metavar="BYTES", help="size of largest batch")
    parser.add_argument("--max-bytes", type=int, default=MAX_BYTES, metavar="BYTES", help="read no more of a segment")
    parser.add_argument("--skip-record-metadata", action="store_true", help="of records print keys and values only")
    for side in ("key", "value"):
        parser.add_argument(
            f"--{side}-decoder-class",
            nargs="?",
            const=_STRING_DECODER,
            metavar="CLASS",
            help=f"how to print {side}s: one of {', '.join(DECODERS)}, or its full name in Kafka "
            "(implies --print-data-log)",
        )
    parser.add_argument(
        "--format",
        choices=("kafka", "classic"),
        default="kafka",
        help="kafka: as the tool of Kafka 3.9 prints; classic: one line a record, as up to Kafka 2.0",
    )


def decoder(name: str | None) -> Decoder:
    """The decoder that a flag names. Raises ``UsageError`` for an unknown name."""
    simple = (name or _STRING_DECODER).rpartition(".")[2]
    if simple not in DECODERS:
        raise UsageError(f"unknown decoder {name}: allowed are {', '.join(DECODERS)}")
    return DECODERS[simple]


def run(args: argparse.Namespace) -> int:
    """Print every file, then the errors found. Returns 1 if a file cannot be read to its end."""
    options = DumpOptions(
        print_data_log=args.print_data_log or bool(args.key_decoder_class or args.value_decoder_class),
        deep_iteration=args.deep_iteration,
        skip_record_metadata=args.skip_record_metadata,
        verify_index_only=args.verify_index_only,
        index_sanity_check=args.index_sanity_check,
        max_message_size=args.max_message_size,
        max_bytes=args.max_bytes,
        key_decoder=decoder(args.key_decoder_class),
        value_decoder=decoder(args.value_decoder_class),
        classic=args.format == "classic",
    )
    # Payloads are arbitrary bytes of producers; the terminal's encoding must not stop the output.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    out = sys.stdout
    findings = Findings()
    log = LogDumper(options, out.write, findings)
    index = IndexDumper(options, out.write, sys.stderr.write, findings)
    dumpers = {
        ".log": log.dump,
        ".index": index.offset_index,
        ".timeindex": index.time_index,
        ".txnindex": index.transaction_index,
        ".snapshot": index.producer_snapshot,
    }
    try:
        for name in args.files.split(","):
            path = Path(name)
            out.write(f"Dumping {path}\n")
            dump = dumpers.get(path.suffix)
            if dump is None:
                out.flush()
                sys.stderr.write(f"Ignoring unknown file {path}\n")
                continue
            dump(path)
    except (CorruptRecordError, ApiError, OSError, struct.error) as error:
        if isinstance(error, BrokenPipeError):
            raise
        out.flush()
        sys.stderr.write(f"kafkalite dump-log: {error}\n")
        return 1
    out.flush()
    findings.write(sys.stderr.write, classic=options.classic)
    return 0
