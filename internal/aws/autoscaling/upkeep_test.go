package autoscaling_test

import (
	coracle "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
)

func (w *fixture) upkeep() autoscalinggroup.API {
	return coracle.NewUpkeep(coracle.Options{Store: w.store, Now: w.clock.Now})
}
