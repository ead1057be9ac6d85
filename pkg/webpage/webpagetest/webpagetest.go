// Package webpagetest opens pages in headless Chromium and says what is cut off, what
// they load and what they need scripts for.
package webpagetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long the browser may take for one answer, on a busy machine.
const patience = time.Minute

// views are how a page is looked at. The last is A4 less its margins of 15 mm.
var views = []struct {
	name          string
	width         int // CSS pixels
	mobile        bool
	media, scheme string
}{
	{"1280 pixels", 1280, false, "screen", "light"},
	{"400 pixels", 400, true, "screen", "light"},
	{"400 pixels, dark", 400, true, "screen", "dark"},
	{"print", 680, false, "print", "light"},
}

// faults is a script that lists what is wrong with the layout of a page. It is the
// test's own: the page's are off.
const faults = `(() => {
	const found = [], width = document.documentElement.clientWidth;
	const say = (e, what) => found.push(what + ': <' + e.tagName.toLowerCase() + '> ' + JSON.stringify(e.textContent.trim().slice(0, 60)));
	const lines = e => {
		const range = document.createRange();
		range.selectNodeContents(e);
		return new Set([...range.getClientRects()].map(line => Math.round(line.top))).size;
	};
	if (document.documentElement.scrollWidth > width) found.push('the page is ' + document.documentElement.scrollWidth + ' pixels wide');
	for (const e of document.querySelectorAll('body *')) {
		if (matchMedia('print').matches && e.parentElement.matches('details:not([open])') && !e.checkVisibility()) say(e, 'not on paper');
		const box = e.getBoundingClientRect();
		if (box.width && (box.right > width + 1 || box.left < -1)) say(e, 'beyond the edge');
		if (e instanceof SVGElement) {
			const frame = e.tagName === 'text' && e.ownerSVGElement.getBoundingClientRect();
			if (frame && (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)) say(e, 'cut off by its figure');
			continue;
		}
		const style = getComputedStyle(e);
		if (style.display !== 'inline' && e.clientWidth && e.scrollWidth > e.clientWidth + 1) say(e, 'wider than its place');
		if (/^(TD|TH)$/.test(e.tagName) && lines(e) > 2 + e.textContent.length / 6) say(e, 'squeezed');
	}
	const light = c => c.match(/[\d.]+/g).slice(0, 3).reduce((sum, x) => sum + +x / 765, 0);
	const paper = light(getComputedStyle(document.documentElement).backgroundColor), ink = light(getComputedStyle(document.body).color);
	if ((paper < .5) !== matchMedia('screen and (prefers-color-scheme: dark)').matches || Math.abs(paper - ink) < .6) found.push('ink ' + ink + ' on paper ' + paper);
	return found;
})()`

// Check opens pages, HTML files, at 1280 and 400 pixels, dark and for print. It fails
// the test where anything of one is cut off, where one loads something, and where the
// browser complains. Without Chromium the test is skipped.
func Check(t *testing.T, files ...string) {
	t.Helper()
	b := open(t)
	for _, file := range files {
		absolute, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		page := (&url.URL{Scheme: "file", Path: absolute}).String()
		for _, view := range views {
			b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": view.width, "height": 900, "deviceScaleFactor": 1, "mobile": view.mobile}, nil)
			b.call("Emulation.setEmulatedMedia", map[string]any{"media": view.media, "features": []map[string]string{{"name": "prefers-color-scheme", "value": view.scheme}}}, nil)
			b.load(page)
			var answer struct {
				Result           struct{ Value []string }
				ExceptionDetails any
			}
			b.call("Runtime.evaluate", map[string]any{"expression": faults, "returnByValue": true}, &answer)
			if answer.ExceptionDetails != nil {
				t.Fatalf("looking at %s: %v", file, answer.ExceptionDetails)
			}
			for _, fault := range answer.Result.Value {
				t.Errorf("%s at %s: %s", filepath.Base(file), view.name, fault)
			}
		}
		for _, seen := range b.seen {
			if seen != page {
				t.Errorf("%s: %s", filepath.Base(file), seen)
			}
		}
		b.seen = nil
	}
}

// browser is a Chromium that is asked over a pipe, by the DevTools protocol: messages
// of JSON that end with a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	from    chan message
	id      int
	session string
	loaded  bool
	seen    []string // requests, and what the browser complained of
}

type message struct {
	ID     int
	Method string
	Params struct {
		Request struct{ URL string }
		Entry   struct{ Level, Text string }
	}
	Result json.RawMessage
	Error  *struct{ Message string }
}

func open(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium (apt-get install chromium)")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirsToo, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	chromium := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+home, "about:blank")
	chromium.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	chromium.ExtraFiles = []*os.File{theirs, theirsToo} // its descriptors 3 and 4
	chromium.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := chromium.Start(); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	theirs.Close()
	theirsToo.Close()
	t.Cleanup(func() {
		to.Close()
		_ = syscall.Kill(-chromium.Process.Pid, syscall.SIGKILL)
		_ = chromium.Wait() // it was killed
		from.Close()
	})
	b := &browser{t: t, to: to, from: make(chan message, 100)}
	go func() {
		defer close(b.from)
		for pipe := bufio.NewReader(from); ; {
			text, err := pipe.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(text[:len(text)-1], &m) == nil {
				b.from <- m
			}
		}
	}()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, method := range []string{"Page.enable", "Network.enable", "Log.enable"} {
		b.call(method, nil, nil)
	}
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	return b
}

// call asks the browser, and keeps what it tells meanwhile.
func (b *browser) call(method string, params map[string]any, into any) {
	b.t.Helper()
	b.id++
	text, err := json.Marshal(struct {
		ID        int            `json:"id"`
		Method    string         `json:"method"`
		Params    map[string]any `json:"params,omitempty"`
		SessionID string         `json:"sessionId,omitempty"`
	}{b.id, method, params, b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := io.WriteString(b.to, string(text)+"\x00"); err != nil {
		b.t.Fatalf("asking Chromium for %s: %v", method, err)
	}
	m := b.until(method, func(m message) bool { return m.ID == b.id })
	if m.Error != nil {
		b.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// load opens a page and waits until all of it is there.
func (b *browser) load(page string) {
	b.t.Helper()
	b.loaded = false
	b.call("Page.navigate", map[string]any{"url": page}, nil)
	if !b.loaded {
		b.until("the page", func(message) bool { return b.loaded })
	}
}

// until takes messages until one that is waited for.
func (b *browser) until(what string, wanted func(message) bool) message {
	b.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m, open := <-b.from:
			if !open {
				b.t.Fatalf("Chromium ended before %s", what)
			}
			switch m.Method {
			case "Page.loadEventFired":
				b.loaded = true
			case "Network.requestWillBeSent":
				b.seen = append(b.seen, m.Params.Request.URL)
			case "Log.entryAdded":
				b.seen = append(b.seen, fmt.Sprintf("%s: %s", m.Params.Entry.Level, strings.TrimSpace(m.Params.Entry.Text)))
			}
			if wanted(m) {
				return m
			}
		case <-late:
			b.t.Fatalf("Chromium did not answer in %v: %s", patience, what)
		}
	}
}
