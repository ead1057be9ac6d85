"""Makes values.json: what CPython, decimal and mpmath say.

Run with Python 3.11 or later that has mpmath: python make_values.py > values.json
"""
import ast
import decimal
import json
import random

import mpmath

random.seed(20240901)


def read(call):
    tree = ast.parse(call.strip(), mode="eval").body
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    positional = [ast.literal_eval(a) for a in tree.args]
    named = {k.arg: ast.literal_eval(k.value) for k in tree.keywords}
    return {"call": call, "name": tree.func.id, "positional": repr(positional), "named": repr(named), "json": json.dumps(named)}


calls = [
    "f()", "cd('archives')", "f(a=True, b=False, c=None)", "f(1, -2, +3, 1_000, 0, 00, -0)",
    "f(x=1.5, y=-2., z=.5, e=1e3, m=2.5E-7, big=1e16, small=1e-5, inf=1e999)",
    "f(x=[1, 'two', [3.0, {}], ()], y=(1,), z=(1), w=(1, 2,))", "f({'a': 1, 2: [3], (True): None})", "f({'a': 1, 'a': 2, 1: 'x', True: 'y'})",
    "f(s='it\\'s', t=\"a 'quote'\", u='both \\' and \"', v='', w=\"\")", "f('a' 'b' \"c\")", "f('''three\nlines''', \"\"\"a\"b\"\"\")",
    "f('\\n\\t\\\\\\r\\x41\\u00e9\\U0001f600\\101\\0')", "f('caf\u00e9 \u4e2d \U0001f600 \u2028 \x7f \x1b')", "  f ( x = 1 , )  ", "f(\n 'a',\n b = [ 1 ,\n 2 ]\n)",
    "f(n=123456789012345678901234567890, m=-9223372036854775808)", "f(x=0.1, y=100.0, z=123456789.123, w=1e22, v=5e-324)",
    "post_tweet('Tires checked!', tags=['#RoadTrip'], mentions=['@AutoUpdates'])", "edit(id=0, updates={'status':'Urgent', 'priority':5})",
    "f(x='a=b, c(d)[e]{f}')", "f(\"\\\nline\")",
]
wrong = [
    "", "f", "f(", "f)", "f(1", "f(1 2)", "f(,)", "f(a=1, a=2)", "f(a=1, 2)", "f(x)", "f(g())", "f(1)+1", "f(1) # comment", "f('a)", "f('a\nb')", "f(01)", "f(1__0)",
    "f(_1)", "f(1_)", "f(--)", "f(1e)", "f(.)", "f([1, 2)", "f([1 2])", "f({1})", "f({1: 2, })x", "f({[1]: 2})", "f({'a' 1})", "f(f'a')", "f(b'a')", "f(*x)", "f(**x)",
    "f('\\x4')", "f('\\ud800')", "f('\\U00110000')", "1(2)", "a.b(1)", "f(1)(2)", "f(True=)", "f(=1)", "f((,))", "f([,])", "f(1,,2)", "f({,})",
]

rounds, roots, logs, operations = [], [], [], []
for value in [0.5, 1.5, 2.5, -2.5, 2.675, 1.005, 1428.5714285714287, 1e300, 1e-300, 5e-324, 123456, -15, 25, 0.0, -0.4, 1e22, 4503599627370497.5]:
    for places in [-400, -2, -1, 0, 1, 2, 5, 17, 330]:
        rounds.append([repr(value), places, repr(round(value, places))])
for value in [0, 1, 2, 4, 10, 16, 100, 10**20, 12345678987654321, 0.25, 0.5, 2.0, 6.25, 0.0625, 0.1, 1e-10, 1e10, 1e300, 3.0000000000000004, 9.999999999999999e22, 152399025]:
    for precision in [1, 2, 3, 5, 10, 28, 60]:
        with decimal.localcontext() as context:
            context.prec = precision
            roots.append([repr(value), precision, repr(decimal.Decimal(value).sqrt())])
for value in [36.0, 20, 980.0, 2, 10, 0.5, 1, 1e-9, 1e300, 123456.789, 10**30, 3, 1.0000001]:
    for base in [6.0, 10, 20, 2, 2.718281828459045, 0.5]:
        for precision in [0, 1, 2, 4, 5, 10, 14, 15, 50]:
            mpmath.mp.dps = precision
            logs.append([repr(value), repr(base), precision, repr(mpmath.log(value) / mpmath.log(base))])
numbers = [0, 1, -7, 3, 10**18, 2**63, 10**40, 0.1, -2.5, 1e308, 1e-308, True, 2**53 + 1]
for a in numbers:
    for b in numbers:
        for sign in "+-*/":
            try:
                outcome = repr({"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[sign]())
            except (ZeroDivisionError, OverflowError):
                outcome = "error"
            operations.append([repr(a), sign, repr(b), outcome])
floats = [repr(random.uniform(-1, 1) * 10.0 ** random.randint(-30, 30)) for _ in range(60)]
print(json.dumps({"calls": [read(c) for c in calls], "wrong": wrong, "rounds": rounds, "roots": roots, "logarithms": logs, "operations": operations, "floats": floats}, indent=None, separators=(",", ":")))
