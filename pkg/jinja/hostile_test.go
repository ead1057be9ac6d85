package jinja

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
)

// hostile are templates that want too much, and what their errors say.
var hostile = map[string]struct{ template, want string }{
	"includes itself":        {`{% include 'chat_template.jinja' %}`, "stands alone"},
	"imports itself":         {`{% import 'x' as y %}`, "stands alone"},
	"from import":            {`{% from 'x' import y %}`, "stands alone"},
	"extends itself":         {`{% extends 'x' %}`, "stands alone"},
	"block":                  {`{% block a %}{{ self.a() }}{% endblock %}`, "stands alone"},
	"range of a trillion":    {`{% for i in range(10**12) %}{% endfor %}`, "at most 100000"},
	"nested loops":           {strings.Repeat(`{% for i in range(100000) %}`, 4) + "x" + strings.Repeat(`{% endfor %}`, 4), "budget"},
	"empty nested loops":     {`{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}`, "budget of steps"},
	"macro calls itself":     {`{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, "calls? itself"},
	"macros call each other": {`{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}`, "nests deeper"},
	"macro as its default":   {`{% macro m(x=m()) %}{% endmacro %}{{ m() }}`, "nests deeper"},
	"macro calls twice":      {`{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}`, "budget of steps"},
	"caller calls":           {`{% macro m() %}{{ caller() }}{% call m() %}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}`, "nests deeper"},
	"repeats text":           {`{{ 'a' * 10**9 }}`, "budget of bytes"},
	"repeats text for ever":  {`{{ 'abc' * 9223372036854775807 }}`, "budget of bytes"},
	"repeats a list":         {`{{ [1] * 10**10 }}`, "budget of bytes"},
	"doubles text":           {`{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`, "budget of bytes"},
	"doubles by tilde":       {`{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`, "budget of bytes"},
	"doubles by join":        {`{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = ns.x|join(ns.x) %}{% endfor %}`, "budget"},
	"doubles by replace":     {`{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = ns.x|replace('a', ns.x) %}{% endfor %}`, "budget of bytes"},
	"doubles by format":      {`{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor %}`, "budget of bytes"},
	"doubles by braces":      {`{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set ns.x = '{0}{0}'.format(ns.x) %}{% endfor %}`, "budget of bytes"},
	"doubles by capture":     {`{% set ns = namespace(x='aaaa') %}{% for i in range(64) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}`, "budget of bytes"},
	"doubles a list":         {`{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`, "budget of bytes"},
	"wide tree of one list":  {`{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}`, "budget"},
	"the same as JSON":       {`{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}`, "budget"},
	"the same compared":      {`{% set a = namespace(x=[1], y=[1]) %}{% for i in range(64) %}{% set a.x = [a.x, a.x] %}{% set a.y = [a.y, a.y] %}{% endfor %}{{ a.x == a.y }}`, "budget of steps"},
	"deep list":              {`{% set ns = namespace(x=1) %}{% for i in range(10000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}`, "nest deeper"},
	"deep list as JSON":      {`{% set ns = namespace(x=1) %}{% for i in range(10000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x|tojson }}`, "nest deeper"},
	"deep lists compared":    {`{% set a = namespace(x=1, y=1) %}{% for i in range(10000) %}{% set a.x = [a.x] %}{% set a.y = [a.y] %}{% endfor %}{{ a.x == a.y }}`, "nest deeper"},
	"deep lists in order":    {`{% set a = namespace(x=1, y=2) %}{% for i in range(1000) %}{% set a.x = [a.x] %}{% set a.y = [a.y] %}{% endfor %}{{ a.x < a.y }}`, "nest"},
	"namespace in itself":    {`{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}`, "not implemented"},
	"centers":                {`{{ 'a'|center(10**9) }}`, "budget of bytes"},
	"fills":                  {`{{ 'a'.ljust(10**12, 'é') }}`, "budget of bytes"},
	"fills with zeros":       {`{{ '5'.zfill(9223372036854775807) }}`, "budget of bytes"},
	"indents":                {`{{ 'a\nb'|indent(10**9) }}`, "budget of bytes"},
	"indents JSON":           {`{{ [1]|tojson(indent=10**9) }}`, "budget of bytes"},
	"indents nested JSON":    {`{{ [[[[[[[[1]]]]]]]]|tojson(indent=4*10**6) }}`, "budget of bytes"},
	"long separators":        {`{% set s = 'a' * 10**6 %}{{ range(1000)|list|tojson(separators=(s, s)) }}`, "budget of bytes"},
	"power":                  {`{{ 10 ** 10 ** 10 }}`, "64 bits"},
	"power of minus one":     {`{{ ((-1) ** (10**15 + 1)).x.x }}`, "undefined"},
	"overflow":               {`{{ 9223372036854775807 + 1 }}`, "64 bits"},
	"smallest by minus one":  {`{{ (-9223372036854775807 - 1) // -1 }}`, "64 bits"},
	"searches long text":     {`{% set s = 'a' * 10**6 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}`, "budget of steps"},
	"strips long text":       {`{% set s = 'a' * 10**6 %}{% for i in range(100000) %}{{ s.strip('ab') }}{% endfor %}`, "budget of steps"},
	"splits into characters": {`{% set s = 'a' * 10**6 %}{% for i in range(100) %}{% set x = s|list %}{% endfor %}`, "budget"},
	"slices long text":       {`{% set s = 'a' * 10**6 %}{% for i in range(1000) %}{% set x = s[::-1] %}{% endfor %}`, "budget"},
	"long format of a date":  {`{{ strftime_now('%c' * 10**6) }}`, "budget of bytes"},
	"sorts much":             {`{% for i in range(100000) %}{% set x = range(100000)|sort %}{% endfor %}`, "budget"},
	"brackets":               {"{{ " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000) + " }}", "nest deeper than 100"},
	"lists in lists":         {"{{ " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + " }}", "nest deeper than 100"},
	"dicts in dicts":         {"{{ " + strings.Repeat("{1:", 10_000) + "1" + strings.Repeat("}", 10_000) + " }}", "nest deeper than 100"},
	"subscripts":             {"{{ " + strings.Repeat("a[", 10_000) + "1" + strings.Repeat("]", 10_000) + " }}", "nest deeper than 100"},
	"minus signs":            {"{{ " + strings.Repeat("-", 100_000) + "1 }}", "nest deeper than 100"},
	"nots":                   {"{{ " + strings.Repeat("not ", 100_000) + "1 }}", "nest deeper than 100"},
	"sum of many":            {"{{ 1" + strings.Repeat("+1", 100_000) + " }}", "in a row"},
	"filters":                {"{{ 1" + strings.Repeat("|abs", 100_000) + " }}", "nests deeper"},
	"attributes":             {"{{ a" + strings.Repeat(".a", 100_000) + " }}", "in a row"},
	"calls":                  {"{{ a" + strings.Repeat("()", 100_000) + " }}", "in a row"},
	"conditions":             {"{{ 1" + strings.Repeat(" if 1 else 1", 10_000) + " }}", "nest deeper than 100"},
	"conditions without":     {"{{ 1" + strings.Repeat(" if 1", 100_000) + " }}", "nests deeper"},
	"powers":                 {"{{ 1" + strings.Repeat("**1", 100_000) + " }}", "in a row"},
	"ifs":                    {strings.Repeat("{% if 1 %}", 10_000) + strings.Repeat("{% endif %}", 10_000), "nest deeper than 100"},
	"targets":                {"{% set " + strings.Repeat("(", 10_000) + "a" + strings.Repeat(")", 10_000) + " = 1 %}", "nest deeper than 100"},
	"a large template":       {strings.Repeat("a", maxTemplateBytes+1), "bytes"},
	"raises":                 {`{{ raise_exception('x' * 10**6) }}`, "refuses"},
	"changes a list":         {`{{ messages.append(1) }}`, "undefined"},
	"changes a dict":         {`{{ messages[0].update({}) }}`, "would change it"},
	"sets an attribute":      {`{% set messages.x = 1 %}`, "only attributes of a namespace"},
	"reaches for internals":  {`{{ ''.__class__.__mro__ }}`, "undefined"},
	"unknown filter":         {`{{ 1|nonesuch }}`, "no filter"},
	"unknown test":           {`{{ 1 is nonesuch }}`, "no test"},
	"unknown tag":            {`{% nonesuch %}`, "unknown tag"},
	"not closed":             {`{{ 1`, "not closed"},
	"no end of a loop":       {`{% for i in [1] %}`, "endfor is missing"},
	"nested generation":      {`{% generation %}{% generation %}{% endgeneration %}{% endgeneration %}`, "no known place"},
	"generation in a macro":  {`{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}{{ m() }}`, "no known place"},
	"the clock":              {`{{ strftime_now('%Y') }}`, "undefined"},
}

func hostileVariables() *Dict {
	message := NewDict()
	message.Set("role", "user")
	message.Set("content", "hello")
	variables := NewDict()
	variables.Set("messages", NewList(message))
	return variables
}

// Each ends soon, in one error, having made little; and the same way again.
func TestHostile(t *testing.T) {
	others := goleak.IgnoreCurrent()
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if name == "long format of a date" {
				o.Now = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := cputime.Spent(t, false)
			_, err := render(c.template, hostileVariables(), o)
			cost := cputime.Spent(t, false) - began
			runtime.ReadMemStats(&after)
			var fault *Error
			if !errors.As(err, &fault) || !contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if n := len(err.Error()); n > 500 {
				t.Errorf("an error of %d bytes", n)
			}
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 256 {
				t.Errorf("%d MiB were allocated", mib)
			}
			if cost > 5*time.Second { // far above any of them, for slow machines
				t.Errorf("cost %v", cost)
			}
			if _, again := render(c.template, hostileVariables(), o); again == nil || again.Error() != err.Error() {
				t.Errorf("the second time: %v", again)
			}
			t.Logf("%v: %v", cost.Round(time.Microsecond), err)
		})
	}
	goleak.VerifyNone(t, others) // which waits for those that are about to end, as a subtest's own
}

func contains(text, want string) bool {
	if want == "calls? itself" {
		want = "itself"
	}
	return strings.Contains(text, want)
}

func FuzzTemplate(f *testing.F) {
	for _, c := range hostile {
		if len(c.template) < 1000 {
			f.Add(c.template)
		}
	}
	f.Add(`{%- for m in messages -%}{{ '<|im_start|>' + m['role'] + '\n' + m.content|trim }}{% endfor %}{# c #}`)
	f.Add(`{% set a = messages[::-1]|map(attribute='role')|list %}{{ a|tojson(indent=2) }}{{ '%s' % a }}{{ '{}'.format(1) }}`)
	f.Add("{% raw %}{{ x }}{% endraw %} {%- set x -%} a {%- endset -%}{{ x.split('a')[-1].title().center(9) }}")
	f.Add(`{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}{% call m(1) %}{{ loop }}{% endcall %}{{ 1.5 // 2 ** -1 }}`)
	f.Fuzz(func(t *testing.T, source string) {
		template, err := Parse(source)
		if err != nil {
			return
		}
		o := Options{Budget: Budget{Steps: 20_000, Bytes: 1 << 20}, Now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
		got, err := template.Render(hostileVariables(), o)
		if again, errAgain := template.Render(hostileVariables(), o); again.Text != got.Text || (err == nil) != (errAgain == nil) {
			t.Errorf("%q then %q", got.Text, again.Text)
		}
		if len(got.Text) > 1<<20 {
			t.Errorf("%d bytes out of a budget of 1 MiB", len(got.Text))
		}
		for _, s := range got.Spans {
			if s.Start < 0 || s.Start > s.End || s.End > len(got.Text) {
				t.Errorf("span %v of %d bytes", s, len(got.Text))
			}
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"b":[1,2.5,"x",null,true],"a":{}}`))
	f.Add([]byte(strings.Repeat("[", 500)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := ParseJSON(raw)
		if err != nil {
			return
		}
		variables := NewDict()
		variables.Set("v", v)
		if _, err := render(`{{ v|tojson }}{{ v }}`, variables, Options{}); err != nil {
			t.Error(err)
		}
	})
}
