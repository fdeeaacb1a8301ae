package logshipper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Logs is the part of CloudWatch Logs with which groups and streams are made. *cloudwatchlogs.Client has it.
type Logs interface {
	CreateLogGroup(context.Context, *cloudwatchlogs.CreateLogGroupInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.CreateLogGroupOutput, error)
	CreateLogStream(context.Context, *cloudwatchlogs.CreateLogStreamInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.CreateLogStreamOutput, error)
}

// destination is the log group and stream of a shipment.
type destination struct {
	group   events.GroupID // 0 until it was looked up
	streams map[string]events.StreamID
}

// GroupName returns the name of the log group of a cluster. Like the group itself it outlives the cluster.
func GroupName(cluster string) string { return "/aws/eks/" + cluster + "/cluster" }

// streamName returns the name of a component's log stream. On EKS a control-plane instance has an ID of 32 lower-case
// hexadecimal digits, which its streams have in common; Coracle's control plane is one instance with the ID of its
// cluster, from the first start to the last, upgrades included.
func streamName(component, clusterID string) string {
	return component + "-" + strings.ToLower(clusterID)
}

// ensureGroup finds the log group, and makes it when there is none (any more).
func (s *shipment) ensureGroup(ctx context.Context) error {
	if s.destination.group != 0 {
		return nil
	}
	name := GroupName(s.cluster.Name)
	row, err := s.findGroup(ctx)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.c.o.Logs(s.cluster.Account, s.cluster.Region).CreateLogGroup(ctx,
			&cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name})
		if err := ignoreAlreadyExists(err); err != nil {
			return fmt.Errorf("create log group %s: %w", name, err)
		}
		row, err = s.findGroup(ctx)
	}
	if err != nil {
		return fmt.Errorf("find log group %s: %w", name, err)
	}
	s.destination = destination{group: events.GroupID(row.Value.ID), streams: map[string]events.StreamID{}}
	return nil
}

func (s *shipment) findGroup(ctx context.Context) (store.Row[record.LogGroup], error) {
	return s.c.groups.Get(ctx, record.LogGroupKey(s.cluster.Account, s.cluster.Region, GroupName(s.cluster.Name)))
}

// ensureStream finds the stream of a component, and makes it when there is none (any more).
func (s *shipment) ensureStream(ctx context.Context, component string) (events.StreamID, error) {
	if err := s.ensureGroup(ctx); err != nil {
		return 0, err
	}
	if id, known := s.destination.streams[component]; known {
		return id, nil
	}
	name := streamName(component, s.cluster.ID)
	key := record.LogStreamKey(uint64(s.destination.group), name)
	row, err := s.c.streams.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.c.o.Logs(s.cluster.Account, s.cluster.Region).CreateLogStream(ctx,
			&cloudwatchlogs.CreateLogStreamInput{
				LogGroupName: aws.String(GroupName(s.cluster.Name)), LogStreamName: &name,
			})
		if err := ignoreAlreadyExists(err); err != nil {
			return 0, fmt.Errorf("create log stream %s: %w", name, err)
		}
		row, err = s.c.streams.Get(ctx, key)
	}
	if err != nil {
		return 0, fmt.Errorf("find log stream %s: %w", name, err)
	}
	s.destination.streams[component] = events.StreamID(row.Value.ID)
	return events.StreamID(row.Value.ID), nil
}

// checkGroupExists returns an error when the log group was deleted since it was looked up; the next reconcile pass
// creates another.
func (s *shipment) checkGroupExists(ctx context.Context) error {
	row, err := s.findGroup(ctx)
	if err == nil && events.GroupID(row.Value.ID) != s.destination.group {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("log group %s: %w", GroupName(s.cluster.Name), err)
	}
	return nil
}

// ignoreAlreadyExists returns nil when err reports that the resource already exists, and any other error as it is.
func ignoreAlreadyExists(err error) error {
	var exists *logstypes.ResourceAlreadyExistsException
	if errors.As(err, &exists) {
		return nil
	}
	return err
}
