package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// lineBegin and lineEnd are the text before and after the record in a line of a batch.
var (
	lineBegin = []byte(`{"kind":"ipc_record","record":`)
	lineEnd   = []byte("}\n")
)

// receiptBegin is the beginning of a line that contains a receipt. A line with a problem never
// begins with it.
var receiptBegin = []byte(`{"ledger":`)

// sendBytes is the approximate number of bytes in each write while a batch is sent.
const sendBytes = 128 << 10

// batch posts a batch of target.Lines records. It reads the response while it is still sending,
// because the server responds before it has read the whole batch. It returns false if not enough
// records are left.
func (c *Conn) batch(target Target, queue *BodyQueue, r *Result) (more bool, err error) {
	first, ok := queue.Take(target.Lines)
	if !ok {
		return false, nil
	}
	begin := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- c.sendLines(target, queue, first) }()
	answered, err := c.receiveLines(target, first, r)
	if err != nil {
		return false, errors.Join(err, c.Close(), <-sent)
	}
	if err := <-sent; err != nil {
		return false, err
	}
	if answered != target.Lines {
		return false, fmt.Errorf("batch of %d lines from record %d: the server answered %d lines", target.Lines, first, answered)
	}
	r.AddRequest(begin, target.Lines)
	return true, nil
}

// sendLines writes a batch of target.Lines records, beginning with record first. It only writes to
// the connection, so receiveLines can read from it at the same time.
func (c *Conn) sendLines(target Target, queue *BodyQueue, first int) error {
	length := target.Lines * (len(lineBegin) + len(lineEnd))
	for i := range target.Lines {
		length += len(queue.Body(first + i))
	}
	c.out = append(c.out[:0], target.Head...)
	c.out = append(strconv.AppendInt(c.out, int64(length), 10), "\r\n\r\n"...)
	for i := range target.Lines {
		c.out = append(c.out, lineBegin...)
		c.out = append(c.out, queue.Body(first+i)...)
		c.out = append(c.out, lineEnd...)
		if len(c.out) < sendBytes && i < target.Lines-1 {
			continue
		}
		if _, err := c.Write(c.out); err != nil {
			return fmt.Errorf("sending a batch from record %d: %w", first, err)
		}
		c.out = c.out[:0]
	}
	return nil
}

// receiveLines reads the response to a batch and counts its receipts. It returns an error if a line
// is not a receipt.
func (c *Conn) receiveLines(target Target, first int, r *Result) (lines int, err error) {
	status, body, err := c.ReadHead()
	if err != nil {
		return 0, fmt.Errorf("receiving the answer to a batch from record %d: %w", first, err)
	}
	rest := c.answer[:0] // the beginning of a line whose end has not been read yet
	for {
		more := false
		if rest, more, err = body.Append(rest); err != nil {
			return lines, fmt.Errorf("receiving the answer to a batch from record %d: %w", first, err)
		}
		if status != target.Status {
			return 0, fmt.Errorf("batch from record %d: status %d, want %d: %.500s", first, status, target.Status, rest)
		}
		text := rest
		for {
			end := bytes.IndexByte(text, '\n')
			if end < 0 {
				break
			}
			if !bytes.HasPrefix(text, receiptBegin) {
				return lines, fmt.Errorf("record %d: %.500s", first+lines, text[:end])
			}
			r.KeepSample(first+lines, text[:end])
			lines++
			text = text[end+1:]
		}
		rest = rest[:copy(rest, text)]
		c.answer = rest
		if !more {
			return lines, nil
		}
	}
}
