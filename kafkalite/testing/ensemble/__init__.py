"""A ZooKeeper ensemble in memory for simulations of whole clusters: time by clocks, chance by a seed. Deterministic.

Answers to: ``org.apache.zookeeper.server.quorum`` and its clients, as far as kafkalite uses them.

How a cluster uses it::

    ensemble = Ensemble(world_clock, random.Random(seed), servers=3)
    ensemble.on_commit(check_invariants)                      # each committed Transaction, in order
    client = ensemble.client(node_clock, "broker 1", session_timeout_ms=6000)
    await client.start()                                      # then as KazooZkClient, `await client.close()` included
    ensemble.cut(client, requests=False); ensemble.lag(1, 5.0); ensemble.depose(); …

``world_clock`` drives the servers. ``node_clock`` drives the client and makes all of its callbacks, so a paused node's
client sends no pings, and a dead node's client does nothing. ``io_clock`` (by default the node's) is the time of
kazoo's own thread: it goes on while the reactor hangs and stops while the process is paused. When a process dies, call
``client.kill()`` (its kernel resets the connection) or ``client.kill(silent=True)`` (its machine is gone); the session
lives on until its timeout, or until ``ensemble.expire(session)``, which is what the guardian does. The same seed
and the same calls give the same run for every hash seed; a clock may make calls of one moment in any order.

Modelled
  - Legs: requests and answers each take their time, in order on one connection. A write takes effect after it
    arrived, was proposed by the leader and committed by a majority; its client may have lost connection or session.
  - Reads: each server answers from its own copy, which lags; a session's reads wait for its own earlier writes. A
    client never attaches to a server that has seen less than the client (its last zxid); a new session forgets that.
  - Sessions: negotiated timeouts, touched by every request and ping, which followers report twice a tick; expired at
    whole ticks; restarted with a new leader. Once a session has moved to another server, its outstanding requests by
    the former one are refused.
  - Leaders: while there is none, every connection is closed and none begins. What was proposed and not
    committed is kept or lost, a transaction as a whole.
  - Watches: one-shot, of one connection to one server, told before the answers that follow; a
    lost connection loses them (LOST, as kazoo tells).
  - Clients: kazoo's order of events (answers fail, SUSPENDED, LOST watches), its pings, its choice of servers and its
    back-off. It says EXPIRED only once a server told it so.
  - Errors, versions, sequence numbers, children versions, ephemerals, paths, ``jute.maxbuffer``: as the server has
    them; ``integration/test_zookeeper_twin.py`` runs the same scripts against both.

Not modelled: ACLs and authentication, ``sync``, containers and TTLs, persistent and recursive watches, observers,
read-only mode, reconfiguration, quotas, loss of the servers' disks, the znodes below ``/zookeeper``, the chroot.

Parts: ``wire`` (messages, legs), ``server`` (one server), ``quorum`` (leader, sessions, faults), ``client``.
"""

from kafkalite.testing.ensemble.client import EnsembleClient
from kafkalite.testing.ensemble.quorum import Ensemble, Timing
from kafkalite.testing.znodes import NodeChange, NodeTransaction, TransactionKind

__all__ = ["Ensemble", "EnsembleClient", "NodeChange", "NodeTransaction", "Timing", "TransactionKind"]
