package publish

import (
	"context"
	"errors"
	"fmt"

	"colophon/internal/publish/bucket"
)

// tryConditions writes the probe object under conditions that do not hold, to find out which
// conditions the bucket honours.
func (p *Publisher) tryConditions(ctx context.Context) (found conditions, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	text := []byte("Colophon writes this object to find out whether the bucket honours conditional writes.\n")
	put := func(c bucket.Condition) error {
		return p.options.Bucket.Put(ctx, probeName, text, bucket.Attributes{ContentType: textType, CacheControl: mutable}, c)
	}
	fail := func(err error) (conditions, error) { return found, fmt.Errorf("probing the bucket: %w", err) }

	if err := put(bucket.Condition{}); err != nil {
		return fail(err)
	}
	if found.absent, err = refused(put(bucket.IfAbsent())); err != nil {
		return fail(err)
	}
	holds := false
	for range tries {
		_, tag, err := p.options.Bucket.Get(ctx, probeName, int64(len(text)))
		if err == nil {
			err = put(bucket.IfTag(tag))
		}
		if holds = err == nil; holds {
			break
		}
		if !errors.Is(err, bucket.ErrConditionsUnsupported) && !errors.Is(err, bucket.ErrPreconditionFailed) {
			return fail(err)
		}
	}
	if !holds {
		return found, nil // the bucket rejects even the current tag, so the condition is useless
	}
	if found.tag, err = refused(put(bucket.IfTag(otherTag))); err != nil {
		return fail(err)
	}
	return found, nil
}

// tries is the maximum number of attempts to read the probe object and then replace it. An attempt
// fails if another server's probe changes the object's tag in between. Tags that are digests do not
// change, because all servers write the same bytes.
const tries = 5

// otherTag looks like a valid tag, but no probe object has it.
const otherTag = "00000000000000000000000000000000"

// refused reports whether err, the result of a Put, means that the condition did not hold. It
// returns err if err is neither ErrPreconditionFailed nor ErrConditionsUnsupported.
func refused(err error) (bool, error) {
	switch {
	case err == nil, errors.Is(err, bucket.ErrConditionsUnsupported):
		return false, nil
	case errors.Is(err, bucket.ErrPreconditionFailed):
		return true, nil
	}
	return false, err
}
