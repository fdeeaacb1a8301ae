// Package cloudtrail serves the event history of AWS CloudTrail: who called which operation of the AWS APIs, and what
// came of it.
//
// [History] is told of each request that has been answered ([wire.Options].Answered). It makes an event of it, in the
// form of CloudTrail's records, and has it on the disk within a second, in the store of log events
// (internal/logs/events), where events of an account have groups of their own beside those of log groups. LookupEvents
// reads them, the newest first.
//
// A request is recorded when its signature is good, whether or not it was carried out, in the account of whoever signed
// it. Nobody else can add to what an account finds. Three classes of events are bounded apart from each other: changes,
// refusals, and reads. Who may call nothing, or only read, can displace no record of a change.
//
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html
package cloudtrail

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Service serves the CloudTrail API. It is safe for concurrent use.
type Service struct {
	history *History
	lookups *limiters // requests, by account and region
}

// New returns the service over an event history.
func New(history *History) *Service {
	return &Service{history: history, lookups: newLimiters(lookupRate, lookupBurst)}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscloudtrail.html
func (s *Service) Register(mux *wire.Mux) {
	mux.Register(wire.CloudTrail,
		wire.Handle(s.LookupEvents, wire.OnAll),
		wire.Handle(s.DescribeTrails, wire.OnAll),
		wire.Handle(s.ListTrails, wire.OnAll),
	)
}

// DescribeTrails describes the trails: none. There is the event history alone, as in an account that has made no trail.
func (s *Service) DescribeTrails(context.Context, *cloudtrail.DescribeTrailsInput) (
	*cloudtrail.DescribeTrailsOutput, error) {
	return &cloudtrail.DescribeTrailsOutput{TrailList: []types.Trail{}}, nil
}

// ListTrails lists the trails: none.
func (s *Service) ListTrails(_ context.Context, in *cloudtrail.ListTrailsInput) (*cloudtrail.ListTrailsOutput, error) {
	if in.NextToken != nil {
		return nil, &wire.Error{Code: "InvalidTokenException", Message: "The token is invalid: " +
			aws.ToString(in.NextToken)}
	}
	return &cloudtrail.ListTrailsOutput{Trails: []types.TrailInfo{}}, nil
}
