package ec2

import (
	"cmp"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// spotPrice is a price as EC2 writes it.
func spotPrice(usd float64) string { return strconv.FormatFloat(usd, 'f', 6, 64) }

// readSpot checks what a request wants of a spot instance.
func readSpot(o *types.SpotMarketOptions, kind instancetype.Type) error {
	if err := oneOf(o.SpotInstanceType, "spotInstanceType"); err != nil {
		return err
	}
	if err := oneOf(o.InstanceInterruptionBehavior, "instanceInterruptionBehavior"); err != nil {
		return err
	}
	switch {
	case o.BlockDurationMinutes != nil:
		return unsupported("BlockDurationMinutes")
	case o.SpotInstanceType == types.SpotInstanceTypePersistent:
		return unsupported("SpotInstanceType=persistent")
	case cmp.Or(o.InstanceInterruptionBehavior, types.InstanceInterruptionBehaviorTerminate) != types.InstanceInterruptionBehaviorTerminate:
		return wire.Errorf("InvalidParameterCombination", "The instance interruption behavior '%s' requires a persistent Spot Instance request.", o.InstanceInterruptionBehavior)
	}
	if max := aws.ToString(o.MaxPrice); max != "" {
		usd, err := strconv.ParseFloat(max, 64)
		if err != nil || usd <= 0 {
			return invalidValue(max, "spotPrice", "Expecting a positive number.")
		}
		if usd < kind.SpotUSD() {
			return wire.Errorf("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %s.", max, spotPrice(kind.SpotUSD()))
		}
	}
	return nil
}

// newSpotRequest makes the request of a new spot instance.
func (c *change) newSpotRequest(r *record.Instance, l *launch) error {
	request := record.SpotRequest{
		EC2Resource: c.identity(newShortID(c.s.spotRequests.prefix), nil), InstanceID: r.ID,
		MaxPrice: aws.ToString(l.spot.MaxPrice), Behavior: types.InstanceInterruptionBehaviorTerminate, ValidUntil: aws.ToTime(l.spot.ValidUntil),
	}
	if request.MaxPrice == "" {
		request.MaxPrice = spotPrice(l.kind.OnDemandUSD)
	}
	r.Lifecycle, r.SpotInstanceRequestID = types.InstanceLifecycleTypeSpot, request.ID
	c.s.spotRequests.create(c, request)
	return c.tagLaunched(types.ResourceTypeSpotInstancesRequest, request.ID, l, nil)
}

func (s *Service) spotRequestKind() kind[record.SpotRequest, types.SpotInstanceRequest] {
	type v = types.SpotInstanceRequest
	return kind[record.SpotRequest, v]{
		naming: naming{
			resource: types.ResourceTypeSpotInstancesRequest, prefix: "sir-", noun: "spot instance request ID", param: "spotInstanceRequestId",
			notFound: "InvalidSpotInstanceRequestID.NotFound", malformed: "InvalidSpotInstanceRequestID.Malformed",
		},
		table:  record.SpotRequests(s.store),
		view:   s.viewSpotRequest,
		tagged: func(x v) []types.Tag { return x.Tags },
	}
}
func (s *Service) viewSpotRequest(in scope, r record.SpotRequest) types.SpotInstanceRequest {
	return types.SpotInstanceRequest{}
}
