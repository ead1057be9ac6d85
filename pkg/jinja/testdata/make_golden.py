"""Renders templates with the Jinja that transformers sets up, for golden.json.

Usage: python make_golden.py golden.json      (transformers 5.23, jinja2 3.1.6)

Each case is a template of its own; it is rendered with the variables below. A
case that raises has "error": true. Templates whose error differs from ours on
purpose (what this package refuses) are in the Go tests, not here.
"""

import json
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = {
    "n": None,
    "one": [{"role": "x"}],
    "two": [1, 2],
    "d": {"zeta": 1, "Alpha": {"b": True, "a": "é<&'\""}, "items": "key", "f": 1.5, "l": [1, [2, {}], []]},
    "s": "héllo wörld",
    "empty": {},
    "emoji": "a👩‍🚀b\u00a0\u2028",
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": " U\n"},
        {"role": "assistant", "content": "A", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "a": [1.0, 2e20]}}}]},
        {"role": "tool", "content": "T"},
    ],
    "big": 9007199254740993,
    "xs": [3, 1, 2, 3],
    "words": ["pear", "Apple", "fig"],
}

TEMPLATES = r"""
{{ n }}|{{ missing }}|{{ true }}|{{ True }}|{{ 1.0 }}|{{ 1e100 }}|{{ 1e-7 }}|{{ 123456789012345678.0 }}|{{ 0.1 }}
{{ 'a' + n }}
{{ 'a' + missing }}
{{ 'a' ~ n ~ missing ~ 1.5 ~ [1] }}
{{ n is defined }}|{{ missing is defined }}|{{ n is none }}|{{ missing is none }}|{{ missing is undefined }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ d.nope }}|{{ d.nope is defined }}|{{ one[0].nope is defined }}
{{ d.nope.nope }}
{{ n.x }}|{{ n['x'] }}|{{ 1.5.x }}
{{ one[-1].role }}|{{ two[5] }}|{{ two[-2] }}|{{ two[-3] }}|{{ s[1] }}|{{ s[-1] }}|{{ s[99] }}
{{ two|reverse|list }}|{{ 'héy'|reverse }}
{{ d|tojson }}
{{ d|tojson(indent=2) }}
{{ d|tojson(indent=4, sort_keys=true) }}
{{ d|tojson(ensure_ascii=true) }}|{{ emoji|tojson(ensure_ascii=true) }}
{{ d|tojson(separators=(',', ':')) }}
{{ [1, 'a\n\t"\\', none, true, 1.0, 1e22, {}, [], ()]|tojson }}|{{ '\x00\x1f\x7f\u2028'|tojson }}
{{ missing|tojson }}
{{ messages|tojson }}
{{ messages[1:]|tojson }}|{{ messages[::-1]|map(attribute='role')|list }}|{{ messages[1:3]|length }}|{{ s[::-1] }}|{{ s[1:4] }}|{{ s[::2] }}|{{ s[-3:] }}|{{ s[:-3] }}|{{ two[:] }}|{{ two[5:] }}|{{ two[::-2] }}|{{ s[4:1:-1] }}|{{ s[-100:100] }}
{{ two[::0] }}
{{ two[1.5:] }}
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem.role if loop.previtem else '-' }}{{ loop.nextitem.role if loop.nextitem is defined else '-' }}{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }};{% endfor %}
{% for m in messages if m.role != 'user' %}{{ loop.index }}{{ m.role }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}
{% for m in [] %}x{% else %}empty{% endfor %}|{% for x in missing %}x{% else %}gone{% endfor %}
{% for x in 5 %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}|{% for k in d %}{{ k }},{% endfor %}
{% for k, v in empty|items %}x{% endfor %}|{{ d|items|list|length }}|{{ missing|items|list }}
{{ d.items is callable }}|{{ d['items'] }}|{{ d.zeta }}
{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{{ range(3)|list }}|{{ range(1, 4)|list }}|{{ range(5, 0, -2)|list }}|{{ range(3)|length }}|{{ range(5)[1] }}|{{ 2 in range(3) }}
{{ range(100001)|length }}
{{ range(1, 5, 0) }}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = 5 %}{% endfor %}{{ x }}|{% if true %}{% set x = 7 %}{% endif %}{{ x }}
{% for i in [1, 2] %}{{ y }}{% set y = i %}{{ y }}{% endfor %}
{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set d.x = 1 %}
{% set x, y = 1, 2 %}{{ x }}{{ y }}|{% set t = 1, 2 %}{{ t }}|{% set u = (1,) %}{{ u }}
{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]|{% set y | upper | trim %} abc {% endset %}[{{ y }}]
{% set x = two %}{{ x.append(3) }}
{% set x = d.update({'a': 1}) %}
{% set x = d.pop('zeta') %}
{{ 7 // 2 }}|{{ 7 // -2 }}|{{ -7 // 2 }}|{{ 7 % 3 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 7 / 2 }}|{{ 4 / 2 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ (-1) ** 7 }}|{{ (-1) ** 8 }}|{{ 0 ** 0 }}|{{ 0 ** 5 }}|{{ 1 ** 9 }}|{{ (-3) ** 3 }}|{{ 2 ** 62 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 1 + 1.5 }}|{{ true + 1 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1.0 // 0 }}
{{ big }}|{{ big + 1 }}|{{ big == 9007199254740992.0 }}
{{ 'a' * 3 }}|{{ 'a' * -1 }}|{{ 3 * 'ab' }}|{{ [1] * 2 }}|{{ [1] + [2] }}|{{ (1,) + (2,) }}
{{ 'a' * 'b' }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 'a' - 'b' }}
{{ -two }}
{{ 1 < 2 < 3 }}|{{ 1 < 2 > 3 }}|{{ 1 == 1.0 == true }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 1 != 2 }}
{{ 'a' < 1 }}
{{ n < 1 }}
{{ 'a' == 1 }}|{{ n == none }}|{{ missing == missing }}|{{ missing == none }}|{{ [1] == (1,) }}|{{ {'a': 1} == {'a': 1.0} }}
{{ 1 in two }}|{{ 'h' in s }}|{{ 'x' not in s }}|{{ 'zeta' in d }}|{{ 'zeta' in d.keys() }}|{{ 1 in d.values() }}|{{ 1 in missing }}|{{ '' in s }}
{{ 1 in 'abc' }}
{{ none in 'abc' }}
{{ not 1 == 2 }}|{{ not missing }}|{{ not not 1 }}|{{ 1 and 0 }}|{{ 0 or 'x' }}|{{ '' or missing or none }}|{{ 1 or missing.x }}
{{ ('a' if one else 'b') + 'c' }}|{{ 'a' if empty }}|{{ 'x' if empty else 'y' if n else 'z' }}|{{ ['a' if one else 'b', 2] }}
{{ -2|abs }}|{{ (-2)|abs }}|{{ -two[0] }}|{{ - 1 + 2 }}|{{ +1 }}|{{ 2 - -1 }}
{{ 'a,b,c'.split(',') }}|{{ 'ab'.split(',')[-1] }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ ' a b  c '.split(none, 1) }}|{{ ' a b  c '.rsplit(none, 1) }}|{{ ''.split() }}|{{ ''.split(',') }}|{{ 'a,b'.split(sep=',') }}
{{ 'ab'.split('') }}
{{ '  x '.strip() }}|{{ '\n\nx\n'.lstrip('\n') }}|{{ 'xxaxx'.rstrip('x') }}|{{ 'abcba'.strip('ab') }}|{{ ' x '|trim }}|{{ 'xax'|trim('x') }}|{{ '\u00a0x\u2003'.strip() }}
{{ s.upper() }}|{{ s.title() }}|{{ s.capitalize() }}|{{ "they're bill's-x"|title }}|{{ "they're bill's-x".title() }}|{{ 'ABC'|lower }}|{{ 'aBC'|capitalize }}
{{ s.startswith('hé') }}|{{ s.endswith(('x', 'd')) }}|{{ s.find('l') }}|{{ s.find('zz') }}|{{ s.rfind('l') }}|{{ s.count('l') }}|{{ s.replace('l', 'LL') }}|{{ s.replace('l', '', 1) }}|{{ s|replace('o', 0) }}|{{ 'ab'.replace('', '-') }}
{{ s.index('zz') }}
{{ s.startswith(1) }}
{{ ','.join(['a', 'b']) }}|{{ ['a', 1, none]|join('-') }}|{{ messages|join(',', attribute='role') }}|{{ 'abc'|join('-') }}
{{ ','.join([1]) }}
{{ 'abc'.center(8) }}|{{ 'abc'.center(9, '*') }}|{{ 'ab'.center(7, '*') }}|{{ 'ab'.center(8, '*') }}|{{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '0') }}|{{ '-5'.zfill(4) }}|{{ 'x'|center(5) }}
{{ 'a\nb\r\nc'.splitlines() }}|{{ 'a\nb\n'.splitlines(true) }}|{{ 'a-b-c'.partition('-') }}|{{ 'a-b-c'.rpartition('-') }}|{{ 'abc'.partition('-') }}|{{ 'abcd'.removeprefix('ab') }}|{{ 'abcd'.removesuffix('cd') }}
{{ 'abc'.isdigit() }}|{{ '12'.isdigit() }}|{{ 'abc'.isalpha() }}|{{ ' '.isspace() }}|{{ ''.isspace() }}|{{ 'ab1'.isalnum() }}|{{ 'AB'.isupper() }}|{{ 'ab'.islower() }}|{{ 'ab'.isascii() }}
{{ '%s-%d-%r-%.2f%%' % ('a', 3, 'b', 1.005) }}|{{ '%s' % n }}|{{ '%(a)s' % {'a': 5} }}|{{ '%s %s'|format(1, 'x') }}
{{ '%s' % (1, 2) }}
{{ '%d' % 'x' }}
{{ '{} {} {{}}'.format(1, 'a') }}|{{ '{1}{0}'.format('a', 'b') }}|{{ '{x}'.format(x=3) }}
{{ '{} {}'.format(1) }}
{{ s.nope }}|{{ s.nope is defined }}|{{ two.nope is defined }}
{{ s.nope() }}
{{ s.upper is callable }}|{{ big < 9007199254740992.0 }}|{{ big > 9007199254740992.0 }}|{{ 9007199254740992 == 9007199254740992.0 }}|{{ 1 < 1e999 }}
{{ d.get('zeta') }}|{{ d.get('nope') }}|{{ d.get('nope', 5) }}|{{ d.keys()|list }}|{{ empty.values()|list }}
{{ two.index(2) }}|{{ xs.count(3) }}
{{ two.index(9) }}
{{ d is mapping }}|{{ two is mapping }}|{{ s is string }}|{{ two is iterable }}|{{ s is iterable }}|{{ n is iterable }}|{{ 1 is iterable }}|{{ two is sequence }}|{{ d is sequence }}|{{ s is sequence }}|{{ 1 is sequence }}|{{ missing is iterable }}
{{ 1 is number }}|{{ true is number }}|{{ true is integer }}|{{ 1.0 is float }}|{{ 1 is boolean }}|{{ true is boolean }}|{{ true is true }}|{{ 1 is true }}|{{ false is false }}|{{ 0 is false }}
{{ 3 is odd }}|{{ 3 is even }}|{{ 6 is divisibleby 3 }}|{{ 6 is divisibleby(4) }}|{{ 1 is eq 1 }}|{{ 1 is equalto(2) }}|{{ 2 is gt 1 }}|{{ 1 is in two }}|{{ 5 is not in two }}|{{ n is sameas none }}|{{ 1 is sameas true }}|{{ 'A' is upper }}
{{ 1 is nonesuch }}
{{ 1|nonesuch }}
{% if false %}{{ 1|nonesuch }}{% endif %}ok
{{ s|length }}|{{ two|count }}|{{ d|length }}|{{ missing|length }}|{{ emoji|length }}
{{ n|length }}
{{ 5|length }}
{{ missing|default('x') }}|{{ n|default('x') }}|{{ n|default('x', true) }}|{{ ''|d('y', boolean=true) }}|{{ missing|default }}
{{ two|first }}|{{ two|last }}|{{ 'é'|first }}|{{ []|first }}|{{ []|last is defined }}|{{ d|first }}
{{ words|sort }}|{{ words|sort(reverse=true) }}|{{ words|sort(case_sensitive=true) }}|{{ messages|sort(attribute='role')|map(attribute='role')|join(',') }}|{{ xs|unique|list }}|{{ xs|sort }}|{{ xs|min }}{{ xs|max }}{{ xs|sum }}|{{ messages|map(attribute='content')|map('trim')|list }}
{{ [1, 'a']|sort }}
{{ d|dictsort|map('first')|list }}|{{ {'b': 1, 'a': 2}|dictsort(by='value') }}|{{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}
{{ messages|selectattr('role', 'equalto', 'user')|list|length }}|{{ messages|rejectattr('role', 'in', ['user', 'tool'])|map(attribute='role')|list }}|{{ messages|selectattr('tool_calls')|list|length }}|{{ messages|selectattr('tool_calls', 'defined')|map(attribute='role')|first }}|{{ xs|select('odd')|list }}|{{ xs|reject('gt', 2)|list }}|{{ [0, 1, '']|select|list }}
{% set g = xs|select('odd') %}{{ g|list }}{{ g|list }}
{{ messages|map(attribute='tool_calls.0.function.name', default='-')|join(',') }}|{{ words|map('upper')|list }}|{{ words|map('replace', 'p', 'q')|list }}
{{ '12'|int }}|{{ 'x'|int }}|{{ 'x'|int(7) }}|{{ 3.9|int }}|{{ '3.9'|int }}|{{ ' 5 '|int }}|{{ n|int }}|{{ '1.5'|float }}|{{ 'x'|float }}|{{ 2|float }}
{{ 2.5|round }}|{{ 2.675|round(2) }}|{{ 2.1|round(0, 'ceil') }}|{{ 2.19|round(1, 'floor') }}|{{ 3|round }}|{{ 3.5|round|int }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}
{{ 'a b  c'|wordcount }}|{{ 'x'|string }}|{{ 5|string + 'x' }}|{{ '<b>'|safe }}|{{ [1,'a']|string }}|{{ 'abc'|list }}
{{ [1, 'a\'b', "c\"d", 'é', '\n', '\x00', '\u200b', none, true, 1.5, (1,), (), {'k': [1]}, {}] }}
{{ "it's" }}|{{ ["it's"] }}|{{ ["a'\""] }}|{{ ['a\\b'] }}
{{ 'a' 'b' }}|{{ "\u00e9\x41\101\N" }}
{{ 'tab\tq\q\\' }}|{{ 'line\
continued' }}
{{ {'a': 1, 'b': {'c': 2}}.b.c }}|{{ {'a': 1}['a'] }}|{{ {1: 'x'}[1] }}|{{ {1: 'x'}[true] }}|{{ dict(a=1, b=2) }}|{{ dict([('x', 1)]) }}|{{ dict({'a': 1}, b=2)|tojson }}
{{ {[1]: 2} }}
{% macro m(a, b=2, c=b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, b=3) }}|{{ m(1, 5, 6) }}|{{ m() }}|{{ m(c=1, a=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}{% set x = 6 %}{{ m() }}|{% for x in [1] %}{{ m() }}{% endfor %}
{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in{{ 1 }}{% endcall %}
{% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) each([1, 2]) %}[{{ v }}]{% endcall %}
{% filter upper %}abc{{ s }}{% endfilter %}|{% filter replace('a', 'b')|upper %}aa{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a }}{{ c }}
{% raw %}{{ x }}{% y %}{# z #}{% endraw %}|{%- raw -%}  a  {%- endraw -%}  b
{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}|{% if 0 %}a{% elif 2 %}b{% else %}c{% endif %}|{% if 0 %}a{% elif none %}b{% else %}c{% endif %}
{{ raise_exception('no') }}
{{ raise_exception() }}
{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q }}
{{ 1, 2 }}|{{ (1, 2) }}|{{ () }}|{{ [] }}|{{ (1) }}
{{ 1_000 }}|{{ 1.5e3 }}|{{ 2e-3 }}
{{ two.0 }}|{{ messages.0.role }}|{{ d['Alpha']['a'] }}|{{ d.Alpha['b'] }}
{{ s['upper']() }}|{{ d|attr('zeta') is defined }}|{{ s|attr('upper') is callable }}
{{ loop }}|{{ self_ is defined }}
{{ "a" if "</x>" in "b</x>c" else "d" }}|{{ "b</x>c".split("</x>")[-1].lstrip("\n") }}
{{ messages|length - 1 }}|{{ (messages|length) - 1 - 1 }}|{{ messages[messages|length - 1].role }}|{{ messages[(1 + 1)].role }}
{{ 'x' is string and one is iterable and d is mapping }}|{{ x is not defined }}|{{ not x is defined }}|{{ n is not none }}
{%- if n is none or n is defined and n.x %}a{% endif -%}
{{ 3 if n is none else 4 }}|{{ 'a' if s is string else 'b' }}
{{ {'a': 'b}}'}.a }}|{{ '%}' }}|{{ "{{" }}
a {#- c -#} b {# d #}
{{ 'a' 
{% if x %}
{% endif %}
{{ 1 + }}
{{ (1 }}
{{ 1) }}
{% for %}{% endfor %}
{% nonesuch %}
{{ 'abc }}
{# never closed
{% set 1 = 2 %}
{% set true = 2 %}
{% for loop in two %}{% endfor %}
{% break %}
{{ f(a=1, 2) }}
{{ & }}
{{ }}
{% macro m(a=1, b) %}{% endmacro %}
{% raw %}x
{{ 'straße ﬁn ŉ ǆ ΐ'|upper }}|{{ 'straße ﬁn'.upper() }}|{{ 'İI ΣΑΣ ΑΣ. ΑΣΑ Σ ὈΔΥΣΣΕΎΣ'|lower }}|{{ 'ΑΣ\u0301 Α\u0301Σ ΑΣ\u0301Α'.lower() }}
{{ 'ßa'|capitalize }}|{{ 'ﬁN'.capitalize() }}|{{ 'ǆA ΑΣ'|capitalize }}|{{ 'İX'.capitalize() }}|{{ ''|capitalize }}|{{ 'ßa ŉb ΑΣ-ﬁx'|title }}|{{ 'ßa ŉb ΑΣ-ﬁx 日本a ªb'.title() }}
{{ ['ΑΣ', 'ας', 'ασ', 'İ', 'i']|sort }}|{{ ['STRASSE', 'straße']|unique|list }}
{{ 'a\r\nb\rc\u2028d\n\n'|indent(2) }}|{{ ''|indent(2, true) }}|{{ '\na'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, true, true) }}|{{ '\n'|indent(2, blank=true) }}|{{ ''|indent }}|{{ 'a\x0cb\x85c'|indent('> ', true) }}
{{ n|indent }}
{{ 5|indent(2) }}
{{ missing|indent }}
{{ n[1:] }}
{{ d[:2] }}
{{ missing|int }}
{{ missing|float }}
{{ 'a-b_c d.e ٣x é'|wordcount }}|{{ ''|wordcount }}|{{ -2.5|wordcount }}
{% for i in two %}{% break %}{% else %}else{% endfor %}|{% for i in two %}{% continue %}{% else %}else{% endfor %}|{% for i in two %}{% if i == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}|{% for i in two %}{% if i == 1 %}{% continue %}{% endif %}x{% else %}else{% endfor %}|{% for i in two %}{% for j in two %}{% break %}{% else %}a{% endfor %}{% else %}b{% endfor %}
""".strip("\n").split("\n")

# Whitespace control wants templates of several lines.
LINES = [
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c\n",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n  c\n\n",
    "a\n  {%+ if true +%}\n  b\n  {%+ endif %}\n  c",
    "  {# one #}\nx {# two #}\ny\n  {#- three -#}\n z",
    "{# a #}\n  {% if one %}\nx\n  {% endif %}\ny\n",
    "{% if true %}   {% if true %}  x{% endif %}{% endif %}\n",
    "{{ 1 }}\n{{ 2 -}}\n\n{{- 3 }}  \n  {{ 4 }}\n",
    "  {{ 1 }}\n  {% set x = 2 %}  \n  {{ x }}\n\n",
    "\n\n{% if true %}\n\nx\n\n{% endif %}\n\n",
    "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\rd\r\n",
    "x\u00a0{%- if true %}y{% endif %}",
    " {% raw %}\n  a\n {% endraw %}\n b",
    "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\n",
    "{% for i in [1,2] -%}\n  {{ i }}\n{%- endfor %}\n",
    "{%- for i in [1,2] -%}{{ i }}{%- if not loop.last -%}, {% endif -%}{%- endfor -%}\n",
    "{% set x %}\n  a\n{% endset %}[{{ x }}]",
    "{% macro m() %}\n  a\n{% endmacro %}[{{ m() }}]\n",
    "{% macro m() -%}\n  a\n{%- endmacro -%}\n[{{ m() }}]\n",
    "{{ 'a\nb' }}\n {{ \"x\" }}",
    "{#-#}x{#- -#} y",
    "a {%- generation -%} b {%- endgeneration -%} c\n  {% generation %}\n  d\n  {% endgeneration %}\n",
    "{% if true %}\n{% if true %}\n{% if true %}\nx\n{% endif %}\n{% endif %}\n{% endif %}\n",
    "", "\n", "\n\n", "{", "{ {", "a{b}%}#}",
]


def render(template):
    try:
        return {"template": template, "text": _compile_jinja_template(template).render(**VARIABLES)}
    except Exception as e:  # whatever Python raises
        return {"template": template, "error": True, "why": f"{type(e).__name__}: {e}"[:100]}


cases = [render(t) for t in TEMPLATES + LINES]
with open(sys.argv[1], "w") as f:
    json.dump({"variables": VARIABLES, "cases": cases}, f, indent=1, ensure_ascii=True)
    f.write("\n")
