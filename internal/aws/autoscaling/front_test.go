package autoscaling_test

import (
	coracle "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
)

func (w *world) front() autoscalinggroup.Front {
	return coracle.NewUpkeep(coracle.Options{Store: w.store, Now: w.clock.Now})
}
