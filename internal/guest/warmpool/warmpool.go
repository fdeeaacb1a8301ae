// Package warmpool keeps the kubelet of an instance from joining the cluster while the instance waits in a warm pool.
//
// An instance in a warm pool boots as every other and runs its user data, but becomes a node only when it leaves the
// pool for its Auto Scaling group. kubelet.service therefore asks "eks-warm-pool check" as a condition; one that is not
// to start yet is started by eks-warm-pool.service once the metadata says that the instance is going into service. A
// pool that keeps its instances stopped needs no service: the next boot asks again.
//
// https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/retrieving-target-lifecycle-state-through-imds.html
package warmpool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// Waiter is the unit that starts the kubelet when the instance leaves the pool.
const Waiter = "eks-warm-pool.service"

// Command is one call of the program.
type Command struct {
	IMDS      *imds.Client
	Stderr    io.Writer
	Systemctl func(args []string) int
	Interval  time.Duration // between questions; a second when 0
}

const usage = "usage: eks-warm-pool check|wait"

// Run runs the program "eks-warm-pool" and returns its exit status. "check" succeeds unless the instance is in a warm
// pool; "wait" waits until it is not, and starts the kubelet.
func (c *Command) Run(ctx context.Context, args []string) int {
	switch strings.Join(args, " ") {
	case "check":
		if warm, err := c.isInWarmPool(ctx); !warm {
			if err != nil { // a node whose kubelet starts again while the metadata is away stays one
				fmt.Fprintf(c.Stderr, "whether this instance is in a warm pool is not known: %v\n", err)
			}
			return 0
		}
		fmt.Fprintln(c.Stderr, "this instance is in a warm pool: the kubelet starts when it goes into service")
		if status := c.Systemctl([]string{"start", "--no-block", Waiter}); status != 0 {
			return 255 // a failure, unlike a condition that is not met
		}
		return 1
	case "wait":
		interval := c.Interval
		if interval == 0 {
			interval = time.Second
		}
		again := time.NewTicker(interval)
		defer again.Stop()
		for {
			if warm, err := c.isInWarmPool(ctx); !warm && err == nil {
				return c.Systemctl([]string{"start", "--no-block", "kubelet.service"})
			}
			select {
			case <-ctx.Done():
				return 1
			case <-again.C:
			}
		}
	}
	fmt.Fprintln(c.Stderr, usage)
	return 2
}

// isInWarmPool reports whether the instance is in a warm pool, or on its way into one. An instance of no group is not.
// For an instance whose metadata is off it returns false.
func (c *Command) isInWarmPool(ctx context.Context) (bool, error) {
	target, err := c.IMDS.Meta(ctx, "autoscaling/target-lifecycle-state")
	if errors.Is(err, imds.ErrNotFound) || errors.Is(err, imds.ErrDisabled) {
		err = nil
	}
	return strings.HasPrefix(target, "Warmed:"), err
}
