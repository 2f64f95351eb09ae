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

// A child is this test binary again, as a server whose files fail: a fault that ends a process
// ends the child. It serves one session after the other, with one line of JSON in each
// direction.

const roleVariable = "COLOPHON_FAULTS_ROLE"

// session is what a child must serve.
type session struct {
	Dir string // the data folder
	// Plans for the ledgers' files and the index's.
	Log, Index faulty.Plan
}

// said is a line of a child.
type said struct {
	URL    string `json:",omitempty"` // the address that it serves
	Failed string `json:",omitempty"` // it could not open or close, and ends
	Closed bool   `json:",omitempty"` // it has ended the session without an error
	Hit    string `json:",omitempty"` // a call that fails
}

// beNode is the main function of a child.
func beNode() int {
	asked := json.NewDecoder(os.Stdin)
	var mu sync.Mutex // for whole lines
	say := func(s said) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(s) // the parent notices a missing line
	}
	for {
		var s session
		if err := asked.Decode(&s); err != nil {
			return 0
		}
		if err := s.serve(asked, say); err != nil {
			say(said{Failed: err.Error()})
			return 3
		}
		say(said{Closed: true})
	}
}

// serve serves until the parent sends another line.
func (s session) serve(asked *json.Decoder, say func(said)) error {
	ctx := context.Background()
	faults := func(what string, plan faulty.Plan) *faulty.Faults {
		f := faulty.New(plan)
		f.Tell = func(call, file string) { say(said{Hit: fmt.Sprintf("%s: %s %s", what, call, fileClass(file))}) }
		return f
	}
	log := testLog()
	database, err := openPebble(ctx, faulty.NewFiles(vfs.Default, faults("log", s.Log)), filepath.Join(s.Dir, "db"), nil, log)
	if err != nil {
		return err
	}
	n, err := openNode(ctx, nodeConfig{
		database:   database,
		indexFiles: faulty.NewFiles(vfs.Default, faults("index", s.Index)), indexDir: filepath.Join(s.Dir, "index"),
		keys:  keystore.Files{Dir: filepath.Join(s.Dir, "keys")},
		marks: keystore.Marks{Dir: filepath.Join(s.Dir, "marks")}, log: log,
	})
	if err != nil {
		return err
	}
	if err := n.serve(); err != nil {
		return errors.Join(err, n.close())
	}
	say(said{URL: n.url})
	var stop string
	if err := asked.Decode(&stop); err != nil {
		return err
	}
	return n.close()
}

// fileClass returns the kind of a file: its name without the number.
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

// child is a child from its parent's view.
type child struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   chan said // closed when the child has ended
	hits    map[string]int
}

func startChild(ctx context.Context) (*child, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{command: exec.CommandContext(ctx, executable), lines: make(chan said, 64), hits: make(map[string]int)}
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
			var s said
			if json.Unmarshal(lines.Bytes(), &s) == nil { // else the child ended within the line
				c.lines <- s
			}
		}
	}()
	return c, nil
}

// Reasons why a child sends no next line.
var (
	errEnded  = errors.New("the child has ended")
	errSilent = errors.New("the child says nothing")
)

// wait returns the next line that is not a hit, and counts hits. It returns errEnded, or
// errSilent after the given time.
func (c *child) wait(most time.Duration) (said, error) {
	late := time.After(most)
	for {
		select {
		case s, more := <-c.lines:
			if !more {
				return said{}, errEnded
			}
			if s.Hit == "" {
				return s, nil
			}
			c.hits[s.Hit]++
		case <-late:
			return said{}, errSilent
		}
	}
}

// ask sends a line.
func (c *child) ask(line any) { _ = json.NewEncoder(c.stdin).Encode(line) } // a dead child is noticed by its silence

// end ends the child, whatever it does.
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
