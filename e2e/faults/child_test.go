package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/ledger/keystore"
	"colophon/storage/faulty"
)

// A child is a process that runs this test binary as a server whose file operations can be made to
// fail. Because the server has its own process, a fault that stops it does not stop the test. A
// child serves one session after another. It exchanges messages with its parent, each on one line
// of JSON. The environment of every child contains roleVariable.

const roleVariable = "COLOPHON_FAULTS_ROLE"

// session tells a child what to serve and which faults to inject.
type session struct {
	Dir string // data folder
	// Log and Index are the faults to inject into the files of the log and of the index.
	Log, Index faulty.Plan
}

// childMessage is one message from a child.
type childMessage struct {
	URL    string `json:",omitempty"` // URL of the server
	Failed string `json:",omitempty"` // error from opening or closing the folder, after which the child exits
	Closed bool   `json:",omitempty"` // the session has ended without an error
	Hit    string `json:",omitempty"` // call into which a fault has just been injected
}

// childMain serves the sessions that it reads from standard input, one after another. It returns the exit
// code.
func childMain() int {
	asked := json.NewDecoder(os.Stdin)
	var mu sync.Mutex // keeps messages from interleaving
	say := func(s childMessage) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(s) // ignore the error: the parent notices if a message is missing
	}
	for {
		var s session
		if err := asked.Decode(&s); err != nil {
			return 0
		}
		if err := s.serve(asked, say); err != nil {
			say(childMessage{Failed: err.Error()})
			return 3
		}
		say(childMessage{Closed: true})
	}
}

// serve serves the data folder until the parent sends the next line.
func (s session) serve(asked *json.Decoder, say func(childMessage)) error {
	ctx := context.Background()
	faults := func(what string, plan faulty.Plan) *faulty.Injector {
		f := faulty.New(plan)
		f.OnFault = func(call, file string) { say(childMessage{Hit: fmt.Sprintf("%s: %s %s", what, call, fileClass(file))}) }
		return f
	}
	log := testLog()
	database, err := openPebble(ctx, faulty.NewFS(vfs.Default, faults("log", s.Log)), filepath.Join(s.Dir, "db"), nil, log)
	if err != nil {
		return err
	}
	n, err := openNode(ctx, nodeConfig{
		database:   database,
		indexFiles: faulty.NewFS(vfs.Default, faults("index", s.Index)), indexDir: filepath.Join(s.Dir, "index"),
		keys:  keystore.KeyFiles{Dir: filepath.Join(s.Dir, "keys")},
		marks: keystore.HighWaterMarkFiles{Dir: filepath.Join(s.Dir, "marks")}, log: log,
	})
	if err != nil {
		return err
	}
	if err := n.serve(); err != nil {
		return errors.Join(err, n.close())
	}
	say(childMessage{URL: n.url})
	var stop string
	if err := asked.Decode(&stop); err != nil {
		return err
	}
	return n.close()
}

// fileClass returns the kind of a file, such as *.sst, MANIFEST, or folder, so that faults can be
// counted by kind.
func fileClass(file string) string {
	base := filepath.Base(file)
	if class := filepath.Ext(base); class != "" && class != base {
		return "*" + class
	}
	for _, class := range []string{"MANIFEST", "OPTIONS", "marker", "LOCK", "LAYOUT"} {
		if len(base) >= len(class) && base[:len(class)] == class {
			return class
		}
	}
	return "folder"
}

// child is the parent's view of a child process.
type child struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   chan childMessage // closed when the child has exited
	hits    map[string]int
}

func startChild(ctx context.Context) (*child, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{command: exec.CommandContext(ctx, executable), lines: make(chan childMessage, 64), hits: make(map[string]int)}
	c.command.Env = append(os.Environ(), roleVariable+"=node")
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	c.command.Stderr = testOutput()
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		lines := bufio.NewScanner(output)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var s childMessage
			if json.Unmarshal(lines.Bytes(), &s) == nil { // otherwise, the child exited while it was writing the line
				c.lines <- s
			}
		}
	}()
	return c, nil
}

// These errors say why a child sends no further messages.
var (
	errEnded  = errors.New("the child has exited")
	errSilent = errors.New("the child sends nothing")
)

// wait returns the next message that does not report an injected fault, and counts the injected
// faults reported before it. It returns errEnded if the child has exited, or errSilent if no
// message arrives within the given time.
func (c *child) wait(most time.Duration) (childMessage, error) {
	late := time.After(most)
	for {
		select {
		case s, more := <-c.lines:
			if !more {
				return childMessage{}, errEnded
			}
			if s.Hit == "" {
				return s, nil
			}
			c.hits[s.Hit]++
		case <-late:
			return childMessage{}, errSilent
		}
	}
}

func (c *child) ask(line any) { _ = json.NewEncoder(c.stdin).Encode(line) } // ignore the error: if the child is dead, wait reports it

// end kills the child and counts the injected faults in its unread messages.
func (c *child) end() {
	_ = c.stdin.Close()
	_ = c.command.Process.Kill()
	for s := range c.lines {
		if s.Hit != "" {
			c.hits[s.Hit]++
		}
	}
	_ = c.command.Wait()
}
