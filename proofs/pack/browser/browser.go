// Package browser drives a headless Chromium for tests, using the DevTools Protocol over a pipe.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// names lists the names under which different distributions install the browser.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// required names an environment variable. If it is 1, tests fail instead of being skipped when no
// browser is installed.
const required = "COLOPHON_REQUIRE_CHROMIUM"

// patience is how long to wait for the browser to respond.
const patience = time.Minute

// Browser is a running browser. It is safe for concurrent use.
type Browser struct {
	commands io.WriteCloser
	done     chan struct{} // closed once the browser has closed its end of the pipe

	mu      sync.Mutex
	last    int                      // ID of the last command; guarded by mu
	waiting map[int]chan<- message   // channels that receive the responses to pending commands, keyed by command ID; guarded by mu
	pages   map[string]chan<- string // channels that are notified when a page has loaded, keyed by session; guarded by mu
	notes   map[string]*PageActivity // activity of each page, keyed by session; guarded by mu
}

// message is the response to a command, or an event.
type message struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts a browser that stops when the test ends. If no browser is installed, it skips the
// test, or fails it if COLOPHON_REQUIRE_CHROMIUM is 1.
func Start(t testing.TB) *Browser {
	t.Helper()
	program := find()
	if program == "" {
		if os.Getenv(required) == "1" {
			t.Fatalf("Chromium is not installed, but %s is 1: install it or unset the variable", required)
		}
		t.Skip("Chromium is not installed")
	}
	theirs, commands, err := os.Pipe()
	require.NoError(t, err)
	answers, theirAnswers, err := os.Pipe()
	require.NoError(t, err)
	// The sandbox is off, because tests can run as root. The browser opens only our own pages.
	// #nosec G204 -- one of a few names, found in the path
	command := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	command.ExtraFiles = []*os.File{theirs, theirAnswers} // file descriptors 3 and 4 of the browser
	require.NoError(t, command.Start())
	require.NoError(t, theirs.Close())
	require.NoError(t, theirAnswers.Close())
	b := &Browser{commands: commands, done: make(chan struct{}), waiting: make(map[int]chan<- message),
		pages: make(map[string]chan<- string), notes: make(map[string]*PageActivity)}
	go b.receive(answers)
	t.Cleanup(func() {
		_ = b.ask("", "Browser.close", nil, nil) // fails if the browser exits before it responds
		_ = commands.Close()
		select {
		case <-b.done:
		case <-time.After(patience):
			_ = command.Process.Kill()
		}
		_ = command.Wait()
		_ = answers.Close()
	})
	return b
}

func find() string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// receive reads the browser's messages and delivers them to the waiting goroutines until the
// browser closes the pipe.
func (b *Browser) receive(answers io.Reader) {
	defer close(b.done)
	in := bufio.NewReader(answers)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			b.deliver(m)
		}
	}
}

func (b *Browser) deliver(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer := b.waiting[m.ID]; m.ID > 0 && answer != nil {
		delete(b.waiting, m.ID)
		answer <- m
		return
	}
	if notes := b.notes[m.SessionID]; notes != nil {
		notes.take(m)
	}
	if events := b.pages[m.SessionID]; events != nil && m.Method == "Page.loadEventFired" {
		select {
		case events <- m.Method:
		default: // an earlier event has not been received yet
		}
	}
}

// ask sends a command and waits for the response. If to is not nil, ask decodes the result into it.
func (b *Browser) ask(session, method string, params map[string]any, to any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.waiting[id] = answer
	text, err := json.Marshal(struct {
		ID        int            `json:"id"`
		SessionID string         `json:"sessionId,omitempty"`
		Method    string         `json:"method"`
		Params    map[string]any `json:"params,omitempty"`
	}{id, session, method, params})
	if err == nil {
		_, err = b.commands.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if to == nil {
			return nil
		}
		return json.Unmarshal(m.Result, to)
	case <-b.done:
		return fmt.Errorf("%s: the browser has exited", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
