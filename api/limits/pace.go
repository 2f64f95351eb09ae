package limits

import (
	"time"

	"golang.org/x/time/rate"
)

// minPace is the minimum burst of a FollowerLimiter, in bytes. A few blocks of events fit in it.
const minPace = 256 << 10

// FollowerLimiter limits the bytes per second that are sent to all followers together.
type FollowerLimiter struct{ Limiter *rate.Limiter }

func NewFollowerLimiter(perSecond int64) *FollowerLimiter {
	return &FollowerLimiter{rate.NewLimiter(rate.Limit(perSecond), int(max(perSecond/8, minPace)))}
}

// Delay returns how long to wait after sending the given number of bytes to a follower. Followers
// wait in turn, one block each, so they all get equal shares.
func (p *FollowerLimiter) Delay(bytes int) time.Duration {
	now := time.Now()
	return p.Limiter.ReserveN(now, min(bytes, p.Limiter.Burst())).DelayFrom(now)
}
