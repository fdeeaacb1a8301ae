package autoscaling_test

import (
	coracle "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/aws/autoscaling/group"
)

func (w *world) front() group.Front {
	return coracle.NewUpkeep(coracle.Options{Store: w.store, Now: w.clock.Now})
}
