package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// flight is the lines that are sent, or about to be, and not answered.
type flight struct {
	mu    sync.Mutex
	lines []importLine // oldest first; under mu
}

func (f *flight) push(line importLine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line)
}

// oldest is the line that is answered next.
func (f *flight) oldest() (line importLine, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lines) == 0 {
		return importLine{}, false
	}
	return f.lines[0], true
}

// drop forgets the oldest line.
func (f *flight) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines[0] = importLine{}
	f.lines = f.lines[1:]
}

func (f *flight) all() []importLine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

func (f *flight) empty() bool {
	_, ok := f.oldest()
	return !ok
}

// attempt makes one connection: it sends the lines that are in flight and then
// those of the channel, and takes the answers meanwhile. finished says that the
// channel was sent to its end. The error is a *problem when the server answered
// with one, to the whole or to a line that it has no room for.
func (im *importer) attempt(ctx context.Context, lines <-chan importLine) (finished bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	body, pipe := io.Pipe()
	sent := make(chan bool, 1)
	go func() { sent <- im.send(ctx, pipe, lines) }()
	defer func() {
		cancel()
		body.Close() // whatever the sender is doing, it ends
		finished = <-sent
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, im.client.base+im.options.path(), body)
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := im.client.do(request)
	if err != nil {
		return false, im.client.noAnswer(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false, im.client.refused(response)
	}
	return false, im.receive(response.Body)
}

// send writes lines to one connection until the channel is closed, which it
// reports, or the connection has ended.
func (im *importer) send(ctx context.Context, pipe *io.PipeWriter, lines <-chan importLine) (finished bool) {
	out := bufio.NewWriterSize(pipe, 64<<10)
	for _, line := range im.flight.all() {
		if writeLine(out, line) != nil {
			return false
		}
	}
	for {
		line, more, ok := nextLine(ctx, out, lines)
		if !ok {
			return false
		}
		if !more {
			return out.Flush() == nil && pipe.Close() == nil
		}
		im.flight.push(line)
		if writeLine(out, line) != nil {
			return false
		}
	}
}

// nextLine takes the next line; before it waits for one it sends what is
// written. more is false at the end, ok when the connection has ended.
func nextLine(ctx context.Context, out *bufio.Writer, lines <-chan importLine) (line importLine, more, ok bool) {
	select {
	case line, more = <-lines:
		return line, more, true
	default:
	}
	if out.Flush() != nil {
		return importLine{}, false, false
	}
	select {
	case line, more = <-lines:
		return line, more, true
	case <-ctx.Done():
		return importLine{}, false, false
	}
}

func writeLine(out *bufio.Writer, line importLine) error {
	if _, err := out.Write(line.text); err != nil {
		return err
	}
	return out.WriteByte('\n')
}

// maxAnswerLine bounds the answer to one line, in bytes: an entry has at most
// 64 KiB, a receipt shows it twice.
const maxAnswerLine = 1 << 20

var errCutOff = errors.New("the connection dropped")

// receive takes answers, each for the oldest line in flight, until there are no
// more.
func (im *importer) receive(body io.Reader) error {
	answers := bufio.NewScanner(body)
	answers.Buffer(make([]byte, 0, 64<<10), maxAnswerLine)
	reader := new(answerReader)
	for answers.Scan() {
		a, err := reader.read(answers.Bytes())
		if err != nil {
			return fmt.Errorf("%w: %w", errCutOff, err)
		}
		line, ok := im.flight.oldest()
		if !ok {
			return errors.New("the server answered more lines than were sent")
		}
		if a.problem != nil && a.problem.temporary() {
			return a.problem // the line stays in flight
		}
		if a.problem == nil && (a.ledger != im.options.ledger || a.kind != line.kind) {
			return fmt.Errorf("%w: the receipt is of a record of kind %.100q of ledger %.100q", errAnswer, a.kind, a.ledger)
		}
		im.flight.drop()
		im.window.Release(line.weight())
		im.tally.count(line, a)
	}
	if err := answers.Err(); err != nil {
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	return nil
}

// The pauses between attempts, before jitter.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 15 * time.Second
)

// pause is how long to wait after so many failures in a row: twice as long each
// time, by chance half as much more or less so that clients do not come back all
// at once, and not less than the server asks for.
func pause(failures int, err error) time.Duration {
	wait := min(firstPause<<min(failures-1, 10), maxPause)
	wait = wait/2 + rand.N(wait) // #nosec G404 -- spreads retries
	if p := (*problem)(nil); errors.As(err, &p) {
		wait = max(wait, min(p.RetryAfter, maxPause))
	}
	return wait
}

// sleep waits; false if ctx is done before.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
