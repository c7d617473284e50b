"""A shop with an SQLite database, as the world of a case.

It is asked over standard input and answers over standard output, one JSON-RPC message
a line. The agent is offered its tools, and sees nothing else of it.
"""
import json
import os
import sqlite3
import sys

TOOLS = [
    {"name": "find_order", "description": "Find an order by its number.",
     "inputSchema": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}},
    {"name": "refund", "description": "Pay back an amount of an order, in cents.",
     "inputSchema": {"type": "object", "properties": {"order": {"type": "integer"}, "cents": {"type": "integer", "minimum": 1}},
                     "required": ["order", "cents"]}},
]

db = sqlite3.connect(os.path.join(os.environ["WORK"], "shop.db"))
db.execute("pragma foreign_keys = on")


def reset(data):
    db.executescript("""
        create table orders (id integer primary key, customer text, cents integer, refunded integer default 0);
        create table refunds (id integer primary key, order_id integer references orders, cents integer);
    """)
    db.executemany("insert into orders (id, customer, cents) values (:id, :customer, :cents)", data["orders"])
    db.commit()


def find_order(order):
    row = db.execute("select id, customer, cents, refunded from orders where id = ?", (order,)).fetchone()
    if row is None:
        raise LookupError(f"there is no order {order}")
    return dict(zip(["order", "customer", "cents", "refunded"], row))


def refund(order, cents):
    found = find_order(order)
    if found["refunded"] + cents > found["cents"]:
        raise ValueError(f"order {order} is of {found['cents']} cents, {found['refunded']} of them are paid back already")
    db.execute("update orders set refunded = refunded + ? where id = ?", (cents, order))
    db.execute("insert into refunds (order_id, cents) values (?, ?)", (order, cents))
    db.commit()
    return find_order(order)


def state():
    rows = db.execute("select id, customer, cents, refunded from orders order by id").fetchall()
    return {"state": {"orders": {str(r[0]): {"customer": r[1], "cents": r[2], "refunded": r[3]} for r in rows},
                      "refunds": db.execute("select count(*) from refunds").fetchone()[0]},
            "dump": "\n".join(db.iterdump())}


def answer(method, params):
    if method == "world/reset":
        reset(params["data"])
        return {}
    if method == "world/health":
        return {"ok": True}
    if method == "world/state":
        return state()
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        try:
            found = {"find_order": find_order, "refund": refund}[params["name"]](**params["arguments"])
            return {"content": [{"type": "text", "text": json.dumps(found)}], "isError": False}
        except Exception as problem:
            return {"content": [{"type": "text", "text": str(problem)}], "isError": True}
    raise NotImplementedError(method)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked["method"], asked.get("params"))}), flush=True)
