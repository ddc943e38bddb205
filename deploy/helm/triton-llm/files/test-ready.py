"""helm test: every server says that it is ready."""

import json
import sys
import urllib.request

for url in sys.argv[1:]:
    with urllib.request.urlopen(f"{url}/ready", timeout=30) as answer:
        print(url, json.load(answer)["models"])
