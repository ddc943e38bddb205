"""helm test: a KServe generate of every model. Arguments: URL NAME, in pairs."""

import json
import sys
import urllib.request

for url, name in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    body = json.dumps({"text_input": "The capital of France is", "max_tokens": 4}).encode()
    request = urllib.request.Request(f"{url}/v2/models/{name}-generator/generate", body)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = json.load(answer)["text_output"]
    print(name, repr(text))
    assert text, f"{name}: an empty answer"
