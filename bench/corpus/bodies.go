package corpus

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Bodies are consecutive records of a corpus, generated in advance so that sending one costs a
// client almost nothing. Their text is outside the garbage-collected heap, so the number of bodies
// does not change how often the collector runs.
type Bodies struct {
	parts []part
	count int
}

// partRecords is the number of records in each part, except for the last part.
const partRecords = 4096

// part holds up to partRecords consecutive records, concatenated.
type part struct {
	text   []byte // memory-mapped
	ends   []uint32
	unique int
}

// MakeBodies generates count records, beginning with record first. The caller must call Free.
func (c *Corpus) MakeBodies(first uint64, count int) (*Bodies, error) {
	b := &Bodies{count: count, parts: make([]part, (count+partRecords-1)/partRecords)}
	errs := make([]error, len(b.parts))
	var all sync.WaitGroup
	cores := make(chan []byte, runtime.GOMAXPROCS(0)) // one buffer per core
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

// make generates the records of a part in buffer, copies them to mapped memory, and returns the
// buffer for reuse.
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
		return buffer, fmt.Errorf("mapping memory for the records: %w", err)
	}
	copy(p.text, buffer)
	return buffer, nil
}

// Free releases the memory. The caller must not use any body afterwards.
func (b *Bodies) Free() error {
	for i := range b.parts {
		if err := unix.Munmap(b.parts[i].text); err != nil {
			return fmt.Errorf("freeing records: %w", err)
		}
	}
	b.parts, b.count = nil, 0
	return nil
}

// Len returns the number of records.
func (b *Bodies) Len() int { return b.count }

// Body returns the i-th record. The caller must not change it.
func (b *Bodies) Body(i int) []byte {
	p := &b.parts[i/partRecords]
	i %= partRecords
	begin := uint32(0)
	if i > 0 {
		begin = p.ends[i-1]
	}
	return p.text[begin:p.ends[i]:p.ends[i]]
}

// TotalBytes returns the total length of all records, and how many of these bytes Append counted as
// unique.
func (b *Bodies) TotalBytes() (all, unique int64) {
	for i := range b.parts {
		all += int64(len(b.parts[i].text))
		unique += int64(b.parts[i].unique)
	}
	return all, unique
}
