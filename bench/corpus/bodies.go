package corpus

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Bodies are consecutive records of a corpus, made ahead so that to send one costs a
// client next to nothing. Their text is outside of the collector's heap: who has many
// of them collects garbage as often as who has few.
type Bodies struct {
	parts []part
	count int
}

// partRecords is how many records all parts but the last have.
const partRecords = 4096

// part is some of the records, one after the other.
type part struct {
	text   []byte // mapped
	ends   []uint32
	unique int
}

// Make makes count records from the index first on. They are freed by Free.
func (c *Corpus) Make(first uint64, count int) (*Bodies, error) {
	b := &Bodies{count: count, parts: make([]part, (count+partRecords-1)/partRecords)}
	errs := make([]error, len(b.parts))
	var all sync.WaitGroup
	cores := make(chan []byte, runtime.GOMAXPROCS(0)) // with a buffer each
	for range cap(cores) {
		cores <- nil
	}
	for n := range b.parts {
		buffer := <-cores
		all.Go(func() {
			begin := n * partRecords
			buffer, errs[n] = b.parts[n].make(c, buffer[:0], first+uint64(begin), min(count-begin, partRecords))
			cores <- buffer
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// make makes the records of a part by way of a buffer, which it returns.
func (p *part) make(c *Corpus, buffer []byte, first uint64, count int) ([]byte, error) {
	p.ends = make([]uint32, count)
	for i := range p.ends {
		var unique int
		buffer, unique = c.Append(buffer, first+uint64(i))
		p.ends[i] = uint32(len(buffer))
		p.unique += unique
	}
	var err error
	if p.text, err = unix.Mmap(-1, 0, len(buffer), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
		return buffer, fmt.Errorf("memory for records: %w", err)
	}
	copy(p.text, buffer)
	return buffer, nil
}

// Free gives their memory back: no body may be used any more.
func (b *Bodies) Free() error {
	for i := range b.parts {
		if err := unix.Munmap(b.parts[i].text); err != nil {
			return fmt.Errorf("freeing records: %w", err)
		}
	}
	b.parts, b.count = nil, 0
	return nil
}

// Len is the number of records.
func (b *Bodies) Len() int { return b.count }

// Body is record i of them. It must not be changed.
func (b *Bodies) Body(i int) []byte {
	p := &b.parts[i/partRecords]
	i %= partRecords
	begin := uint32(0)
	if i > 0 {
		begin = p.ends[i-1]
	}
	return p.text[begin:p.ends[i]:p.ends[i]]
}

// Bytes is the length of all, and how many of the bytes are unique in the corpus.
func (b *Bodies) Bytes() (all, unique int64) {
	for i := range b.parts {
		all += int64(len(b.parts[i].text))
		unique += int64(b.parts[i].unique)
	}
	return all, unique
}
