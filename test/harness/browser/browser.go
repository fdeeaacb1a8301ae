// Package browser drives Chromium for tests of the console: a person's clicks and keys, and what that person sees.
//
// Everything that a page must not do fails the test: violations of the content security policy, errors in the browser's
// console, exceptions, and requests to anything but the daemon.
package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// patience is the time within which a page shows what it is waited for.
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
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

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
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab := &Tab{t: t, ctx: ctx, origin: origin}
	chromedp.ListenTarget(ctx, tab.observe)
	tab.Do("open a tab", chromedp.EmulateViewport(width, height), log.Enable(), network.Enable(), runtime.Enable(),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(`document.addEventListener("securitypolicyviolation", (e) =>
				console.error("policy:", e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber));`).Do(ctx)
			return err
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
		wrong = "exception: " + e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.APITypeError && e.Type != runtime.APITypeWarning {
			return
		}
		var parts []string
		for _, a := range e.Args {
			parts = append(parts, string(a.Value)+a.Description)
		}
		wrong = "console: " + strings.Join(parts, " ")
	case *log.EventEntryAdded:
		if e.Entry.Level != log.LevelError {
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

// Context returns the context for actions of chromedp.
func (b *Tab) Context() context.Context { return b.ctx }

// Do runs actions of chromedp, or fails the test with what was attempted and what the page shows.
func (b *Tab) Do(attempted string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v; %s", attempted, err, b.describe())
	}
}

// describe says what the page shows, for a test that fails.
func (b *Tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	var text, address string
	var png []byte
	if err := chromedp.Run(ctx, chromedp.Location(&address), chromedp.Evaluate(`document.body?.innerText ?? ""`, &text),
		chromedp.CaptureScreenshot(&png)); err != nil {
		return "the page cannot be read: " + err.Error()
	}
	return fmt.Sprintf("%s, in %s, shows\n%s\n%s", address, b.keep("failed.png", png), text,
		strings.Join(b.Wrong(), "\n"))
}

// Go opens a path of the daemon.
func (b *Tab) Go(path string) {
	b.t.Helper()
	b.Do("open "+path, chromedp.Navigate(b.origin+path))
}

// See waits until the page shows a text.
func (b *Tab) See(text string) {
	b.t.Helper()
	b.Do(fmt.Sprintf("see %q", text), chromedp.Poll(fmt.Sprintf(`document.body?.innerText.includes(%q)`, text), nil,
		chromedp.WithPollingTimeout(patience)))
}

// Text returns what the page shows.
func (b *Tab) Text() (text string) {
	b.t.Helper()
	b.Do("read the page", chromedp.Evaluate(`document.body.innerText`, &text))
	return text
}

// Click clicks the button, link, tab or menu item that has a text or label.
func (b *Tab) Click(name string) {
	b.t.Helper()
	b.Do(fmt.Sprintf("click %q", name), chromedp.Click(control(name), chromedp.BySearch, chromedp.NodeVisible))
}

// control returns the XPath of what has a text or label.
func control(name string) string {
	literal := xpathLiteral(name)
	return `//*[self::button or self::a or @role="tab" or @role="menuitem" or @role="menuitemcheckbox" or @role="option"` +
		` or self::input][normalize-space(.)=` + literal + ` or @aria-label=` + literal + `]`
}

func xpathLiteral(text string) string {
	if !strings.Contains(text, `"`) {
		return `"` + text + `"`
	}
	return `concat("` + strings.ReplaceAll(text, `"`, `",'"',"`) + `")`
}

// Fill types into the field with a label, which was empty.
func (b *Tab) Fill(label, text string) {
	b.t.Helper()
	var id string
	b.Do(fmt.Sprintf("find the field %q", label), chromedp.Poll(fmt.Sprintf(`[...document.querySelectorAll("label")]
		.find((l) => l.innerText.trim().startsWith(%q))?.htmlFor ?? ""`, label), &id,
		chromedp.WithPollingTimeout(patience)))
	b.Do(fmt.Sprintf("fill in %q", label), chromedp.SendKeys(id, text, chromedp.ByID))
}

// Resize gives the tab another size, in pixels.
func (b *Tab) Resize(width, height int64) {
	b.t.Helper()
	b.Do("resize", chromedp.EmulateViewport(width, height))
}

// Prefer has the system prefer a color scheme, "light" or "dark".
func (b *Tab) Prefer(scheme string) {
	b.t.Helper()
	b.Do("prefer "+scheme, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// Screenshot keeps a picture of what the tab shows.
func (b *Tab) Screenshot(name string) {
	b.t.Helper()
	var png []byte
	b.Do("take a screenshot", chromedp.CaptureScreenshot(&png))
	b.t.Logf("screenshot: %s", b.keep(name+".png", png))
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

// Await has chromedp.Evaluate wait for a promise.
func Await(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// Accessible fails the test for what axe finds wrong with the page for people who use it by keyboard, in a screen
// reader, or with little sight. https://github.com/dequelabs/axe-core
func (b *Tab) Accessible(what string) {
	b.t.Helper()
	axe, err := os.ReadFile(filepath.Join(testenv.Root(), "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		b.t.Skipf("axe is not installed: run \"npm ci\" in console: %v", err)
	}
	var found []string
	b.Do("have axe look at "+what, chromedp.Evaluate(string(axe)+";0", nil), chromedp.Evaluate(
		`axe.run().then(({ violations }) => violations.flatMap((v) => v.nodes.map((n) =>
			v.id + ": " + v.help + "\n  " + n.html + "\n  " + n.failureSummary)))`, &found, Await))
	for _, each := range found {
		b.t.Errorf("%s: %s", what, each)
	}
}
