"""Submit a job to a fleet from one's own program, over nothing but AMQP: answer its tool calls, print its outcome.

    python3 -m pip install pika
    THERMAE_AMQP=amqp://acme:acme@127.0.0.1:5672 python3 examples/enqueue.py

The URL holds a password, so it comes from the environment: everybody on a machine can read the arguments of a process.

docs/protocol.md says what each message holds.
"""

import json
import os
import sys
import time
import uuid

import pika

CODE = """
total = 0
for n in range(1, 4):
    total += await square(n=n)
print("the sum of squares is", total)
"""

url = pika.URLParameters(os.environ["THERMAE_AMQP"])
user = url.credentials.username
tenant = user.split(".")[0]
client, job = uuid.uuid4().hex, str(uuid.uuid4())
connection = pika.BlockingConnection(url)
channel = connection.channel()
channel.confirm_delivery()

# 1. The queue for the answers: our own, bound to our own key.
replies = f"replies.{tenant}.{client}"
channel.queue_declare(replies, exclusive=True)
channel.queue_bind(replies, "replies", routing_key=f"{tenant}.{client}")

# 2. The job. It is mandatory and confirmed: when this call returns, the fleet has the job. The fleet refuses messages
# without `user_id`, which RabbitMQ checks against the connection.
channel.basic_publish(
    exchange="submit",
    routing_key=f"{tenant}.normal.default",
    body=json.dumps({"id": job, "code": CODE, "tools": [{"name": "square"}]}),
    properties=pika.BasicProperties(
        message_id=job,
        reply_to=f"{tenant}.{client}",
        user_id=user,
        delivery_mode=2,
        headers={"x-submitted": int(time.time() * 1000)},
    ),
    mandatory=True,
)

# 3. The job's events: tool calls that need an answer, and in the end the result. Events of other kinds, which a newer
# fleet may send, are ignored.
for method, _, body in channel.consume(replies):
    event = json.loads(body)
    channel.basic_ack(method.delivery_tag)
    if event["job"] != job:
        continue
    if event["event"] == "tool_call":
        answer = {"call": event["call"], "ok": event["arguments"]["n"] ** 2}
        channel.basic_publish(
            exchange="calls",
            routing_key=event["reply_to"],
            body=json.dumps(answer),
            properties=pika.BasicProperties(user_id=user),
        )
    elif event["event"] == "result":
        print(event["status"] + ":", event["stdout"].strip() or event.get("error"))
        break

connection.close()
sys.exit(0 if event["status"] == "succeeded" else 1)
