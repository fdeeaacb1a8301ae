//go:build linux

package loopdevice

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrSilent is the error of what is asked of a device that does not answer: as long as the kernel waits for writes to
// it, whoever opens it waits, too, and cannot be killed.
var ErrSilent = errors.New("the device does not answer")

// patience bounds how long a device may take to answer. What it was asked goes on afterwards.
const patience = 10 * time.Second

// questions has the devices that are asked something, each by one goroutine at a time: those that never answer keep no
// more than one each.
var questions struct {
	sync.Mutex
	asked map[int]question
}

type question struct {
	began time.Time
	ended chan struct{}
}

// lockDevice waits until no call of a device is under way, and marks it as called until end is called.
func lockDevice(number int, limit <-chan time.Time) (end func(), err error) {
	for {
		questions.Lock()
		before, waits := questions.asked[number]
		if !waits {
			q := question{time.Now(), make(chan struct{})}
			if questions.asked == nil {
				questions.asked = map[int]question{}
			}
			questions.asked[number] = q
			questions.Unlock()
			return func() {
				questions.Lock()
				defer questions.Unlock()
				delete(questions.asked, number)
				close(q.ended)
			}, nil
		}
		questions.Unlock()
		select {
		case <-before.ended:
		case <-limit:
			return nil, fmt.Errorf("loop device %d: %w", number, ErrSilent)
		}
	}
}

// callDevice calls f, which makes a system call on a device, and waits for it for a limited time.
func callDevice[T any](number int, patience time.Duration, f func() (T, error)) (answer T, err error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	end, err := lockDevice(number, limit.C)
	if err != nil {
		return answer, err
	}
	type result struct {
		answer T
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		defer end()
		answer, err := f()
		answered <- result{answer, err}
	}()
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-limit.C:
		return answer, fmt.Errorf("loop device %d: %w", number, ErrSilent)
	}
}

// callDeviceError is callDevice for a call whose only answer is its error.
func callDeviceError(number int, patience time.Duration, f func() error) error {
	_, err := callDevice(number, patience, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// isSilent reports whether a device has been asked something that it has not answered for that long.
func isSilent(number int, since time.Duration) bool {
	questions.Lock()
	defer questions.Unlock()
	q, asked := questions.asked[number]
	return asked && time.Since(q.began) > since
}
