// Package browser drives Chromium for tests of the console: a person's clicks and keys, and what that person sees.
//
// Everything that a page must not do fails the test: violations of the content security policy, errors in the browser's
// console, exceptions, and requests to anything but the daemon.
package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// patience is the time that an action may take.
const patience = 60 * time.Second

// names are those of the program, in the order of preference.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Start starts a browser that ends with the test. It fails a test where there is none.
func Start(t testing.TB) context.Context {
	t.Helper()
	testenv.NeedsSetup(t)
	var program string
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("Chromium is not installed: run \"make setup\"")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true),
		// Debian's Chromium does not start as root with its sandbox. Nothing but the daemon's pages is opened.
		chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("end the browser: %v", err)
		}
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

// tellViolations writes violations of the content security policy to the browser's console.
const tellViolations = `document.addEventListener("securitypolicyviolation", (e) =>
	console.error("policy:", e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber));`

// networkChanged is the error of requests that the browser gives up, as interfaces of the host come or go.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// Tab is a tab of its own: it shares no storage with others.
type Tab struct {
	t      testing.TB
	ctx    context.Context
	origin string

	mu       sync.Mutex
	expected []string // parts of what may go wrong
	wrong    []string
}

// Open opens an empty tab for the pages of a daemon, whose endpoint is the origin. It has a width and height in pixels.
func Open(t testing.TB, browser context.Context, origin string, width, height int64) *Tab {
	t.Helper()
	tab := &Tab{t: t, origin: origin}
	tab.Expect(networkChanged) // the page asks again
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(tab.observe))
	t.Cleanup(cancel)
	tab.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // the tab ends with this context, rather than with that of an action
		t.Fatalf("open a tab: %v", err)
	}
	tab.Do("open a tab", chromedp.EmulateViewport(width, height), chromedp.Func(
		func(ctx context.Context, _ *chromedp.Target) error {
			_, logged := chromedp.Call(ctx, log.Enable, cdp.Empty{})
			_, requested := chromedp.Call(ctx, network.Enable, network.EnableParams{})
			_, added := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
				page.AddScriptToEvaluateOnNewDocumentParams{Source: tellViolations})
			return errors.Join(logged, requested, added)
		}))
	t.Cleanup(func() {
		for _, each := range tab.Wrong() {
			t.Error(each)
		}
	})
	return tab
}

// Expect lets go wrong what has a text in it, such as a request that is to be refused.
func (b *Tab) Expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

// Wrong returns what has gone wrong so far, but for what was expected to.
func (b *Tab) Wrong() (wrong []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, each := range b.wrong {
		for _, text := range b.expected {
			if strings.Contains(each, text) {
				continue next
			}
		}
		wrong = append(wrong, each)
	}
	return wrong
}

func (b *Tab) observe(event any) {
	var wrong string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		wrong = "exception: " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			wrong += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		var parts []string
		for _, a := range e.Args {
			parts = append(parts, string(a.Value)+a.Description)
		}
		wrong = "console: " + strings.Join(parts, " ")
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError {
			return
		}
		wrong = "log: " + e.Entry.Text + " " + e.Entry.URL
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err == nil && (u.Scheme == "data" || u.Scheme == "blob" || u.Scheme+"://"+u.Host == b.origin) {
			return
		}
		wrong = "request to elsewhere: " + e.Request.URL
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, wrong)
}

// Do runs actions of chromedp, or fails the test with what was attempted and what the page shows.
func (b *Tab) Do(attempted string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	run(b, attempted, chromedp.Steps(actions...))
}

// run runs an action of chromedp and returns its value, or fails the test.
func run[T any](b *Tab, attempted string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v; %s", attempted, err, b.describe())
	}
	return value
}

// Evaluate returns the value of an expression of JavaScript in the page, or what its promise comes to.
func Evaluate[T any](b *Tab, expression string) T {
	b.t.Helper()
	return run(b, "evaluate "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Until waits until an expression is true in the page, over reloads.
func (b *Tab) Until(attempted, expression string) {
	b.t.Helper()
	if err := eventually.Try(10*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !is {
			err = errors.New("it is not so")
		}
		return err
	}); err != nil {
		b.t.Fatalf("%s: %v; %s", attempted, err, b.describe())
	}
}

// describe says what the page shows, for a test that fails.
func (b *Tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	address, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "the page cannot be read: " + err.Error()
	}
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body?.innerText ?? ""`))
	if err != nil {
		return "the page cannot be read: " + err.Error()
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return "the page cannot be seen: " + err.Error()
	}
	return fmt.Sprintf("%s, in %s, shows\n%s\n%s", address, b.keep("failed.png", png), text,
		strings.Join(b.Wrong(), "\n"))
}

// Go opens a path of the daemon, again where the browser gives up because the network of the host has changed.
func (b *Tab) Go(path string) {
	b.t.Helper()
	if err := eventually.Try(100*time.Millisecond, func() error {
		err := chromedp.Do(b.ctx, chromedp.Navigate(b.origin+path))
		if err != nil && !strings.Contains(err.Error(), networkChanged) {
			b.t.Fatalf("open %s: %v", path, err)
		}
		return err
	}); err != nil {
		b.t.Fatalf("open %s: %v", path, err)
	}
}

// See waits until the page shows a text.
func (b *Tab) See(text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf("see %q", text), fmt.Sprintf(`document.body?.innerText.includes(%s)`, quote(text)))
}

// quote returns a text as a literal of JavaScript.
func quote(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string is JSON
	}
	return string(literal)
}

// Text returns what the page shows.
func (b *Tab) Text() string {
	b.t.Helper()
	return Evaluate[string](b, `document.body.innerText`)
}

// Address returns the address of the page.
func (b *Tab) Address() string {
	b.t.Helper()
	return run(b, "read the address", chromedp.Location())
}

// Click clicks the button, link, tab, menu item or choice that has a text or label, where a person sees it.
func (b *Tab) Click(name string) {
	b.t.Helper()
	at := fmt.Sprintf(`(() => {
		const roles = "[role=button], [role=tab], [role=option], [role^=menuitem]";
		const choice = (e) => /^(radio|checkbox)$/.test(e.type) &&
			document.getElementById(e.getAttribute("aria-labelledby")?.split(" ")[0])?.innerText.trim();
		const option = (e) => e.role === "option" && e.innerText.trim().split("\n", 1)[0]; // without its description
		const found = [...document.querySelectorAll("button, a, input, " + roles)].find((e) =>
			(e.innerText?.trim() === %[1]s || e.ariaLabel === %[1]s || choice(e) === %[1]s || option(e) === %[1]s) &&
			!e.disabled && !e.closest("[aria-hidden=true]") &&
			e.checkVisibility({ visibilityProperty: true, opacityProperty: e.tagName !== "INPUT" }));
		if (found === undefined) return null;
		found.scrollIntoView({ block: "nearest" });
		const { x, y, width, height } = found.getBoundingClientRect();
		return width > 0 ? [x + width / 2, y + height / 2] : null;
	})()`, quote(name))
	b.Until(fmt.Sprintf("find %q", name), at)
	point := Evaluate[[]float64](b, at)
	b.Do(fmt.Sprintf("click %q", name), chromedp.MouseClickXY(point[0], point[1]))
}

// Fill types into the field with a label, which was empty.
func (b *Tab) Fill(label, text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("label")].find((l) => l.innerText.trim().startsWith(%s))?.htmlFor`,
		quote(label))
	b.Until(fmt.Sprintf("find the field %q", label), find)
	b.Do(fmt.Sprintf("fill in %q", label), chromedp.SendKeys(chromedp.ID(Evaluate[string](b, find)), text))
}

// Resize gives the tab another size, in pixels.
func (b *Tab) Resize(width, height int64) {
	b.t.Helper()
	b.Do("resize", chromedp.EmulateViewport(width, height))
}

// Prefer has the system prefer a color scheme, "light" or "dark".
func (b *Tab) Prefer(scheme string) {
	b.t.Helper()
	b.Do("prefer "+scheme, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	}))
}

// Screenshot keeps a picture of what the tab shows.
func (b *Tab) Screenshot(name string) {
	b.t.Helper()
	b.t.Logf("screenshot: %s", b.keep(name+".png", run(b, "take a screenshot", chromedp.CaptureScreenshot())))
}

// keep writes a file into the directory of artifacts, and returns its path.
func (b *Tab) keep(name string, content []byte) string {
	dir := os.Getenv("CORACLE_ARTIFACTS")
	if dir == "" {
		dir = filepath.Join(testenv.Root(), "bin", "artifacts")
	}
	path := filepath.Join(dir, strings.ReplaceAll(b.t.Name(), "/", "-")+"-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Error(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.t.Error(err)
	}
	return path
}

// Accessible fails the test for what axe finds wrong with the page for people who use it by keyboard, in a screen
// reader, or with little sight. Without npm, which installs axe, nothing is checked.
// https://github.com/dequelabs/axe-core
func (b *Tab) Accessible(what string) {
	b.t.Helper()
	// What is fading in has less contrast than it will have.
	b.Until("see animations end", `document.getAnimations().every((a) =>
		a.playState !== "running" || a.effect.getTiming().iterations === Infinity)`)
	axe, err := os.ReadFile(filepath.Join(testenv.Root(), "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if _, missing := exec.LookPath("npm"); missing == nil {
			b.t.Fatalf("axe is not installed: run \"npm ci\" in console: %v", err)
		}
		b.t.Logf("%s: not checked by axe: %v", what, err)
		return
	}
	Evaluate[int](b, string(axe)+";0")
	found := Evaluate[[]string](b, `axe.run().then(({ violations }) => violations.flatMap((v) => v.nodes.map((n) =>
		v.id + ": " + v.help + "\n  " + n.html + "\n  " + n.failureSummary)))`)
	for _, each := range found {
		b.t.Errorf("%s: %s", what, each)
	}
}
