"""helm test: an OpenAI chat stream of every model, through the gateway. Arguments: URL NAME..."""

import json
import sys
import urllib.request

url, *names = sys.argv[1:]
for name in names:
    question = {"model": name, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "stream": True}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        events = [line[6:].strip() for line in answer if line.startswith(b"data: ")]
    print(name, len(events), "events")
    assert events[-1] == b"[DONE]", f"{name}: the stream ended with {events[-1:]}"
    reasons = [choice["finish_reason"] for event in events[:-1] for choice in json.loads(event)["choices"]]
    assert [reason for reason in reasons if reason], f"{name}: no finish reason"
