package limits

import (
	"time"

	"golang.org/x/time/rate"
)

// minPace is the least number of bytes that may be sent at once: some blocks of events.
const minPace = 256 << 10

// FollowPace shares out how much is sent to all followers together.
type FollowPace struct{ Limiter *rate.Limiter }

func NewFollowPace(perSecond int64) *FollowPace {
	return &FollowPace{rate.NewLimiter(rate.Limit(perSecond), int(max(perSecond/8, minPace)))}
}

// Delay says how long a follower who has been sent so many bytes has to wait. Those
// who pay wait one after the other, and each has been sent a block: so all get as
// much.
func (p *FollowPace) Delay(bytes int) time.Duration {
	now := time.Now()
	return p.Limiter.ReserveN(now, min(bytes, p.Limiter.Burst())).DelayFrom(now)
}
