package pebble

import (
	"context"
	"fmt"
	"math"
	"time"

	"colophon/storage/pebble/internal/erase"
)

// PendingErasures describes erased content that might still be in files of the database.
type PendingErasures struct {
	Count      int       // number of pieces of erased content that might still be in files
	OldestTime time.Time // time at which the oldest piece was erased, in UTC; zero if Count is 0
}

// PendingErasures counts the pieces of erased content that might still be in files of the database.
// An erasure normally takes seconds. If it takes longer, Config.Logger receives the reason.
func (d *Database) PendingErasures(ctx context.Context) (PendingErasures, error) {
	if err := d.usable(ctx); err != nil {
		return PendingErasures{}, fmt.Errorf("counting erased content: %w", err)
	}
	return d.erasing()
}

func (d *Database) erasing() (PendingErasures, error) {
	var e PendingErasures
	err := erase.ForEachPending(d.engine, math.MaxInt, func(m erase.PendingErasure) {
		if at := time.UnixMicro(m.TimeMicros).UTC(); e.Count == 0 || at.Before(e.OldestTime) {
			e.OldestTime = at
		}
		e.Count++
	})
	return e, err
}
