"""Markdown becomes elements; whatever a model writes beside it stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_page import ChatPage
from scripted_gateway import PAUSE, ScriptedGateway

RENDER = """
    const { renderMarkdown } = await import(new URL("static/js/markdown/render.js", document.baseURI));
    return [...arguments[0]].map((text) => {
        const place = document.createElement("div");
        renderMarkdown(place, text);
        return [shape(place), place.textContent];
    });
    function shape(node) {
        return [...node.childNodes].map((child) => {
            if (child.nodeType === Node.TEXT_NODE) return child.data;
            const { localName: name } = child;
            if (name === "figure") return `code:${child.dataset.language}:${child.querySelector("code").textContent}`;
            const more = name === "a" ? `(${child.href})` : child.className ? `.${child.className}` : "";
            return { [name + more]: shape(child) };
        });
    }
"""

EXAMPLES: dict[str, list[Any]] = {
    "plain": [{"p": ["plain"]}],
    "one\ntwo": [{"p": ["one", {"br": []}, "two"]}],
    "# Head #\ntext": [{"h2": ["Head"]}, {"p": ["text"]}],
    "__e__ _f_": [{"p": [{"strong": ["e"]}, " ", {"em": ["f"]}]}],
    "###### deep": [{"h6": ["deep"]}],
    "#no head": [{"p": ["#no head"]}],
    "**a** *b* ***c*** ~~d~~": [
        {"p": [{"strong": ["a"]}, " ", {"em": ["b"]}, " ", {"strong": [{"em": ["c"]}]}, " ", {"del": ["d"]}]}
    ],
    "snake_case_name and 2 * 3 * 4": [{"p": ["snake_case_name and 2 * 3 * 4"]}],
    "**open and *half": [{"p": ["**open and *half"]}],
    r"\*not\* \<em\>": [{"p": ["*not* <em>"]}],
    "`a*b*` ``c`d``": [{"p": [{"code": ["a*b*"]}, " ", {"code": ["c`d"]}]}],
    "```py\nx = 1\n\ny\n```\nafter": ["code:py:x = 1\n\ny", {"p": ["after"]}],
    "```\nstill coming": ["code::still coming"],
    "~~~\n```\n~~~": ["code::```"],
    "- a\n- b\n  - c\n\n  more": [{"ul": [{"li": ["a"]}, {"li": ["b", {"ul": [{"li": ["c"]}]}, {"p": ["more"]}]}]}],
    "1. a\n   ```\n   x\n   ```\n2. b": [{"ol": [{"li": ["a", "code::x"]}, {"li": ["b"]}]}],
    "1. a\n\n2. b": [{"ol": [{"li": ["a"]}, {"li": ["b"]}]}],
    "- [x] done\n- [ ] to do": [
        {"ul": [{"li.task": [{"input": []}, " ", "done"]}, {"li.task": [{"input": []}, " ", "to do"]}]}
    ],
    "> a\n> > b": [{"blockquote": [{"p": ["a"]}, {"blockquote": [{"p": ["b"]}]}]}],
    "a\n\n---\n\nb": [{"p": ["a"]}, {"hr": []}, {"p": ["b"]}],
    "|a|b|\n|-|-:|\n|`1`|x \\| y|": [
        {
            "div.table": [
                {
                    "table": [
                        {"thead": [{"tr": [{"th": ["a"]}, {"th.right": ["b"]}]}]},
                        {"tbody": [{"tr": [{"td": [{"code": ["1"]}]}, {"td.right": ["x | y"]}]}]},
                    ]
                }
            ]
        }
    ],
    "a | b\nno table": [{"p": ["a | b", {"br": []}, "no table"]}],
    '[docs](https://example.org/a_(b) "t")': [{"p": [{"a(https://example.org/a_(b))": ["docs"]}]}],
    "see https://example.org/x_y, or <mailto:a@example.org>.": [
        {
            "p": [
                "see ",
                {"a(https://example.org/x_y)": ["https://example.org/x_y"]},
                ", or ",
                {"a(mailto:a@example.org)": ["mailto:a@example.org"]},
                ".",
            ]
        }
    ],
    "[**b**](https://example.org)": [{"p": [{"a(https://example.org/)": [{"strong": ["b"]}]}]}],
    "![alt](https://example.org/i.png)": [{"p": [{"a(https://example.org/i.png)": ["alt"]}]}],
    "a<br>b": [{"p": ["a", {"br": []}, "b"]}],
    "a\r\nb": [{"p": ["a", {"br": []}, "b"]}],
}

ATTACKS = [
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "<svg onload=window.hit=1>",
    "<iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
    "<a href='javascript:window.hit=1'>x</a>",
    "<style>*{display:none}</style><base href='https://example.org/'>",
    "`<script>window.hit = 1</script>`",
    "**<img src=x onerror=window.hit=1>**",
    "# <details open ontoggle=window.hit=1>",
    "| <script>window.hit=1</script> |\n|-|\n| <img src=x onerror=window.hit=1> |",
    "</div></article></main><form action=/x><input autofocus onfocus=window.hit=1>",
]

UNSAFE = [
    "[x](javascript:window.hit=1)",
    "[x](JaVaScRiPt:window.hit=1)",
    "[x]( javascript:window.hit=1 )",
    "[x](java\tscript:window.hit=1)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](blob:null/1)",
    "[x](/v1/models)",
    "![x](javascript:window.hit=1)",
    "<javascript:window.hit=1>",
]


@pytest.fixture
def rendered(page: ChatPage) -> Any:
    def render(texts: list[str]) -> list[tuple[list[Any], str]]:
        return [(shape, text) for shape, text in page.run_module(RENDER, texts)]

    return render


def test_markdown_by_example(rendered: Any) -> None:
    shapes = dict(zip(EXAMPLES, (shape for shape, _ in rendered(list(EXAMPLES))), strict=True))
    assert shapes == EXAMPLES


def test_attacks_are_shown_as_text(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["\n\n".join(ATTACKS)]]
    answer = page.ask_and_wait("\n".join(ATTACKS))
    for attack in (
        "<script>window.hit = 1</script>",
        "<svg onload=window.hit=1>",
        "<img src=x onerror='window.hit = 1'>",
    ):
        assert attack in answer
        assert attack in page.texts()[0][1]
    page.click("New conversation")
    page.reload()
    assert page.run("return window.hit") is None
    page.all(".conversation-name")[0].click()
    forbidden = "script, img, iframe, style, base, form, svg:not(.icon, .logo), details, [onerror], [onload]"
    assert page.run("return document.getElementById('thread').querySelectorAll(arguments[0]).length", forbidden) == 0
    assert page.run("return window.hit") is None
    page.shot("attacks-light")


def test_unsafe_links_are_no_links(rendered: Any) -> None:
    for (shape, text), source in zip(rendered(UNSAFE), UNSAFE, strict=True):
        assert "a(" not in json.dumps(shape), source
        assert "x" in text or "javascript" in text


def test_links_leave_nothing_behind(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["[docs](https://example.org/)"]]
    page.ask_and_wait("Where?")
    link = page.one(".markdown a")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert link.get_attribute("target") == "_blank"


def texts() -> st.SearchStrategy[str]:
    """Marks that mean something, words, and anything else."""
    marks = [
        "*",
        "**",
        "_",
        "`",
        "```",
        "~~~",
        "~~",
        "[",
        "](",
        ")",
        "!",
        "<",
        ">",
        "|",
        "-",
        "1. ",
        "- ",
        "# ",
        "> ",
        "\\",
    ]
    pieces = st.sampled_from([*marks, "\n", "\n\n", "  ", "    ", "|-|", "word", "https://e.org/", "[x] ", "<br>"])
    return st.lists(pieces | st.text(max_size=5), max_size=40).map("".join)


def test_any_text_gives_harmless_elements_and_loses_no_word(rendered: Any) -> None:
    sources = generated()
    for (shape, text), source in zip(rendered(sources), sources, strict=True):
        assert text.count("word") == source.count("word"), source
        names = {name.partition("(")[0].partition(".")[0] for name in names_of(shape)}
        assert names <= ALLOWED, source


ALLOWED = {
    *("p", "h2", "h3", "h4", "h5", "h6", "hr", "blockquote", "ul", "ol", "li", "input", "div", "table", "thead"),
    *("tbody", "tr", "th", "td", "code", "br", "strong", "em", "del", "a"),
}


def names_of(shape: list[Any]) -> set[str]:
    inner = [node for node in shape if isinstance(node, dict)]
    return {name for node in inner for name in node}.union(
        *(names_of(kids) for node in inner for kids in node.values())
    )


def generated() -> list[str]:
    """Drawn at once: one call of the browser renders them all."""
    found: list[str] = []

    @settings(max_examples=300, database=None)
    @given(texts())
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found


def test_a_stream_gives_what_the_whole_text_gives(page: ChatPage) -> None:
    """However the text is cut, and with the nodes of finished blocks kept."""
    source = "\n\n".join(EXAMPLES)
    same = """
        const { renderMarkdown } = await import(new URL("static/js/markdown/render.js", document.baseURI));
        const [whole, grown] = [document.createElement("div"), document.createElement("div")];
        renderMarkdown(whole, arguments[0]);
        let first = null;
        for (let end = 1; end <= arguments[0].length; end++) {
            renderMarkdown(grown, arguments[0].slice(0, end));
            if (end === 20) first = grown.firstChild;
        }
        const clean = (node) => node.innerHTML;
        return [clean(whole) === clean(grown), first === grown.firstChild];
    """
    assert page.run_module(same, source) == [True, True]


@pytest.mark.parametrize("piece", ["*a ", "[", "`", "**", "](", "- ", "> ", "|", "~~~\n", "_a", "<", "\\", "1. a\n"])
def test_no_text_takes_the_page_with_it(page: ChatPage, piece: str) -> None:
    """Twenty thousand half marks: a page that took quadratic time would meet the script's deadline."""
    page.chrome.set_script_timeout(60)
    assert page.run_module(RENDER + "", [piece * 20000])


def test_long_code_scrolls_in_its_box_and_is_coloured_and_copied(page: ChatPage, gateway: ScriptedGateway) -> None:
    code = 'def f(x):\n    return "a string"  # and a comment that is longer than any screen is wide ' + "x" * 200
    gateway.answers = [[f"Here:\n\n```python\n{code}\n", PAUSE, "```\n\nThat is all."]]
    page.ask("Code, please")
    page.wait(lambda: "longer than any screen" in page.answer(), "the code")
    box = page.one(".code pre")
    assert page.run("return arguments[0].scrollWidth > arguments[0].clientWidth", box)
    page.run("arguments[0].scrollLeft = 50", box)
    gateway.go()
    page.wait_for_end()
    looks = page.run(
        "return [...document.querySelectorAll('.code code span')].map((s) => [s.className, s.textContent])"
    )
    assert ["keyword", "def"] in looks
    assert ["name", "f"] in looks
    assert ["string", '"a string"'] in looks
    page.cdp("Browser.grantPermissions", origin=page.url.rstrip("/"), permissions=["clipboardReadWrite"])
    page.click("Copy the code")
    page.wait(lambda: page.all("[aria-label='Copied']"), "the button to say so")
    assert page.run_module("return navigator.clipboard.readText()") == code
    page.shot("code-light")
    page.prefer(scheme="dark")
    page.shot("code-dark")
    page.size((360, 740))
    page.shot("code-phone-dark")
