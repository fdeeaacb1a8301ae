package autoscaling_test

import "github.com/coracle-eks/coracle/internal/aws/autoscaling/group"

func (w *world) front() group.Front { return nil }
