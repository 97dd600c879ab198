"""Flower without its network and without Ray: a grid that calls the client app at once."""

import pytest


def sent(message):
    """The message as it arrives: in bytes and back."""
    from flwr.common.serde import message_from_proto, message_to_proto

    return message_from_proto(message_to_proto(message))


class DirectGrid:
    """A Flower ``Grid`` whose nodes are in this process.

    Args:
        app: the ClientApp of every node.
        n_nodes: how many there are; node 1000 + p holds partition p.
        dead: nodes that answer nothing, as (node, first message of it that is lost).
        run_config: of the run.
        fails: messages that make a node's app fail, as (node, number of the message).
    """

    def __init__(self, app, n_nodes, dead=(), run_config=None, fails=()):
        from flwr.app import Context, RecordDict

        self.app, self.dead, self.fails, self.replies, self.count = app, dict(dead), set(fails), [], {}
        self.contexts = {
            1000 + p: Context(0, 1000 + p, {"partition-id": p}, RecordDict(), run_config or {}) for p in range(n_nodes)
        }

    def get_node_ids(self):
        return list(self.contexts)

    def push_messages(self, messages):
        from flwr.app import Error, Message

        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            self.count[node] = self.count.get(node, 0) + 1
            message.metadata.__dict__["_message_id"] = f"{node}-{self.count[node]}"
            ids.append(message.metadata.message_id)
            if (node, self.count[node]) in self.fails:
                self.replies.append(sent(Message(Error(0, "ClientApp raised"), reply_to=message)))
            elif self.count[node] < self.dead.get(node, 10**9):
                self.replies.append(sent(self.app(sent(message), self.contexts[node])))
        return ids

    def pull_messages(self, message_ids):
        wanted = set(message_ids)
        found = [reply for reply in self.replies if reply.metadata.reply_to_message_id in wanted]
        self.replies = [reply for reply in self.replies if reply not in found]
        return reversed(found)

    def send_and_receive(self, messages, *, timeout=None):
        return list(self.pull_messages(self.push_messages(messages)))


@pytest.fixture
def direct_grid(monkeypatch):
    """The class :class:`DirectGrid`, in a process that Flower takes for a server's."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)
    return DirectGrid
