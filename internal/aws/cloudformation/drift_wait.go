package cloudformation

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// driftWait bounds how long DetectStackResourceDrift waits for the controller, and driftPoll how often it looks.
const (
	driftWait = 30 * time.Second
	driftPoll = 10 * time.Millisecond
)

// DetectStackResourceDrift detects drift of one resource, and answers with what it found.
func (s *Service) DetectStackResourceDrift(ctx context.Context, in *cloudformation.DetectStackResourceDriftInput) (
	*cloudformation.DetectStackResourceDriftOutput, error) {
	logicalID := aws.ToString(in.LogicalResourceId)
	v, id, err := s.beginDrift(ctx, in.StackName, []string{logicalID})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, driftWait)
	defer cancel()
	ticker := time.NewTicker(driftPoll)
	defer ticker.Stop()
	for {
		row, err := s.drifts.Get(ctx, record.StackDriftDetectionKey(v.Account, v.Region, id))
		if err != nil {
			return nil, err
		}
		switch row.Value.Status {
		case types.StackDriftDetectionStatusDetectionFailed:
			return nil, validation("Drift detection failed: %s", row.Value.Reason)
		case types.StackDriftDetectionStatusDetectionComplete:
			resource, err := s.resources.Get(ctx, record.StackResourceKey(v.Account, v.Region, v.ID, logicalID))
			if err != nil || resource.Value.Drift == nil {
				return nil, validation("Resource %s does not exist for stack %s", logicalID, v.Name)
			}
			drift := showDrift(v, resource.Value)
			return &cloudformation.DetectStackResourceDriftOutput{StackResourceDrift: &drift}, nil
		}
		select {
		case <-ctx.Done():
			return nil, validation("Drift detection of %s has not ended: try again", logicalID)
		case <-ticker.C:
		}
	}
}
