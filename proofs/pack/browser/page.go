package browser

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// PageActivity records the requests, errors, and dialogs of a page, so that tests can inspect them.
type PageActivity struct {
	RequestedURLs []string // requested URLs, including the page's own
	Errors        []string // exceptions, and errors in the browser's log
	Dialogs       []string // messages of the dialogs that the page has opened
}

// take records the request, error, or dialog that m reports. It is called with the browser's mutex
// held.
func (n *PageActivity) take(m message) {
	var p struct {
		Request struct{ URL string }
		Entry   struct{ Level, Text string }
		Message string
		Details struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	switch {
	case m.Method == "Network.requestWillBeSent":
		n.RequestedURLs = append(n.RequestedURLs, p.Request.URL)
	case m.Method == "Runtime.exceptionThrown":
		n.Errors = append(n.Errors, p.Details.Text+" "+p.Details.Exception.Description)
	case m.Method == "Log.entryAdded" && p.Entry.Level == "error":
		n.Errors = append(n.Errors, p.Entry.Text)
	case m.Method == "Page.javascriptDialogOpening":
		n.Dialogs = append(n.Dialogs, p.Message)
	}
}

// Page is an open page in a Browser.
type Page struct {
	browser *Browser
	session string
	loaded  chan string
}

// NewPage opens an empty page.
func (b *Browser) NewPage(t testing.TB) *Page {
	t.Helper()
	var target struct{ TargetID string }
	require.NoError(t, b.ask("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target))
	var attached struct{ SessionID string }
	require.NoError(t, b.ask("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached))
	p := &Page{browser: b, session: attached.SessionID, loaded: make(chan string, 1)}
	b.mu.Lock()
	b.pages[p.session], b.notes[p.session] = p.loaded, new(PageActivity)
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.SendCommand(t, domain+".enable", nil)
	}
	t.Cleanup(func() {
		_ = b.ask("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil) // fails if the browser has already exited
	})
	return p
}

// SendCommand sends a DevTools Protocol command to the page.
func (p *Page) SendCommand(t testing.TB, method string, params map[string]any) {
	t.Helper()
	require.NoError(t, p.browser.ask(p.session, method, params, nil))
}

// OpenFile opens a file and waits until it is loaded.
func (p *Page) OpenFile(t testing.TB, file string) {
	t.Helper()
	p.Navigate(t, "file://"+file)
}

// Navigate opens an address and waits until the page is loaded.
func (p *Page) Navigate(t testing.TB, address string) {
	t.Helper()
	select {
	case <-p.loaded: // discard the load event of an earlier page
	default:
	}
	var answer struct{ ErrorText string }
	require.NoError(t, p.browser.ask(p.session, "Page.navigate", map[string]any{"url": address}, &answer))
	require.Empty(t, answer.ErrorText)
	select {
	case <-p.loaded:
	case <-time.After(patience):
		t.Fatal("the page did not load in time")
	}
}

// Eval evaluates an expression, awaits it if it is a promise, and decodes the value into to.
func (p *Page) Eval(t testing.TB, expression string, to any) {
	t.Helper()
	var answer struct {
		Result struct{ Value json.RawMessage }
		Thrown *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}
	require.NoError(t, p.browser.ask(p.session, "Runtime.evaluate", params, &answer))
	if answer.Thrown != nil {
		t.Fatalf("%.300s: %s %s", expression, answer.Thrown.Text, answer.Thrown.Exception.Description)
	}
	require.NoError(t, json.Unmarshal(answer.Result.Value, to), "%.300s", expression)
}

// Text returns the text of all elements that match a CSS selector, one element per line.
func (p *Page) Text(t testing.TB, selector string) string {
	t.Helper()
	var lines []string
	quoted, err := json.Marshal(selector)
	require.NoError(t, err)
	p.Eval(t, "Array.from(document.querySelectorAll("+string(quoted)+"), (e) => e.textContent)", &lines)
	return strings.Join(lines, "\n")
}

// Activity returns the requests, errors, and dialogs so far.
func (p *Page) Activity() PageActivity {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	n := p.browser.notes[p.session]
	return PageActivity{slices.Clone(n.RequestedURLs), slices.Clone(n.Errors), slices.Clone(n.Dialogs)}
}
