package logs

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Delivery sources and destinations are created by operations that also change them. A name that is taken is found
// before; who takes it after that keeps it, since the operations take tags for what is new alone.

// newName returns the name of a property, unless describe finds something of that name.
func newName[L any](ctx context.Context, c *client, r *resource.Request,
	describe func(context.Context, *client, *resource.Request) (*L, error)) (string, error) {
	named := *r
	named.PhysicalID = r.Text("Name")
	_, err := describe(ctx, c, &named)
	switch {
	case err == nil:
		return "", resource.Errorf(resource.AlreadyExists, "%s already exists", named.PhysicalID)
	case !resource.IsNotFound(err):
		return "", err
	}
	return named.PhysicalID, nil
}

// findNamed returns the name of a property, if what describe finds has the tags of the stack.
func findNamed[L any](ctx context.Context, c *client, r *resource.Request,
	describe func(context.Context, *client, *resource.Request) (*L, error), tags func(*L) map[string]string) (
	string, error) {
	named := *r
	named.PhysicalID = r.Text("Name")
	live, err := describe(ctx, c, &named)
	if err == nil && !r.Owns(tags(live)) {
		err = resource.ErrNotFound
	}
	return named.PhysicalID, err
}

// putTags adds the tags that the property of a resource would have to its properties.
func putTags(r *resource.Request, live map[string]string, properties map[string]any) map[string]any {
	if own := resource.TagObjects(r.LiveTags("Tags", live)); own != nil {
		properties["Tags"] = own
	}
	return properties
}

// sources is the handler of AWS::Logs::DeliverySource.
var sources = resource.Handle(resource.Table[*client, types.DeliverySource]{
	Client: newClient,
	Create: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		name, err := newName(ctx, c, r, describeSource)
		if err == nil {
			err = putSource(ctx, c, r, name, r.Wanted("Tags"))
		}
		if err != nil {
			return "", err
		}
		return name, nil
	},
	Find: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		return findNamed(ctx, c, r, describeSource, func(live *types.DeliverySource) map[string]string { return live.Tags })
	},
	Describe: describeSource,
	Configure: []resource.Step[*client]{
		{
			Properties: []string{"LogType", "ResourceArn"}, Update: true,
			Run: func(ctx context.Context, c *client, r *resource.Request) error {
				return putSource(ctx, c, r, r.PhysicalID, nil)
			},
		},
		setTags(func(r *resource.Request) *string { return arnOf("delivery-source", r) }),
	},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteDeliverySource(ctx, &cloudwatchlogs.DeleteDeliverySourceInput{Name: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.DeliverySource) map[string]any {
		arns := []any{}
		for _, arn := range live.ResourceArns {
			arns = append(arns, arn)
		}
		attributes := map[string]any{"Arn": aws.ToString(live.Arn), "ResourceArns": arns,
			"Service": aws.ToString(live.Service), "Status": string(live.Status)}
		if live.StatusReason != "" {
			attributes["StatusReason"] = string(live.StatusReason)
		}
		return attributes
	},
	Properties: func(_ context.Context, _ *client, r *resource.Request, live *types.DeliverySource) (
		map[string]any, error) {
		properties := map[string]any{"Name": aws.ToString(live.Name), "LogType": aws.ToString(live.LogType)}
		if len(live.ResourceArns) > 0 {
			properties["ResourceArn"] = live.ResourceArns[0]
		}
		return putTags(r, live.Tags, properties), nil
	},
})

func describeSource(ctx context.Context, c *client, r *resource.Request) (*types.DeliverySource, error) {
	out, err := c.GetDeliverySource(ctx, &cloudwatchlogs.GetDeliverySourceInput{Name: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return out.DeliverySource, nil
}

func putSource(ctx context.Context, c *client, r *resource.Request, name string, tags map[string]string) error {
	_, err := c.PutDeliverySource(ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: &name,
		LogType: aws.String(r.Text("LogType")), ResourceArn: aws.String(r.Text("ResourceArn")), Tags: tags})
	return err
}

// destinations is the handler of AWS::Logs::DeliveryDestination.
var destinations = resource.Handle(resource.Table[*client, types.DeliveryDestination]{
	Client: newClient,
	Create: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		name, err := newName(ctx, c, r, describeDestination)
		if err != nil {
			return "", err
		}
		in := &cloudwatchlogs.PutDeliveryDestinationInput{Name: &name, Tags: r.Wanted("Tags"),
			DeliveryDestinationType: types.DeliveryDestinationType(r.Text("DeliveryDestinationType")),
			OutputFormat:            types.OutputFormat(r.Text("OutputFormat"))}
		if arn := r.Pointer("DestinationResourceArn"); arn != nil {
			in.DeliveryDestinationConfiguration = &types.DeliveryDestinationConfiguration{DestinationResourceArn: arn}
		}
		if _, err := c.PutDeliveryDestination(ctx, in); err != nil {
			return "", err
		}
		return name, nil
	},
	Find: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		return findNamed(ctx, c, r, describeDestination,
			func(live *types.DeliveryDestination) map[string]string { return live.Tags })
	},
	Describe: describeDestination,
	Configure: []resource.Step[*client]{
		setTags(func(r *resource.Request) *string { return arnOf("delivery-destination", r) }),
	},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteDeliveryDestination(ctx, &cloudwatchlogs.DeleteDeliveryDestinationInput{Name: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.DeliveryDestination) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn)}
	},
	Properties: func(_ context.Context, _ *client, r *resource.Request, live *types.DeliveryDestination) (
		map[string]any, error) {
		properties := map[string]any{"Name": aws.ToString(live.Name),
			"DeliveryDestinationType": string(live.DeliveryDestinationType), "OutputFormat": string(live.OutputFormat)}
		if to := live.DeliveryDestinationConfiguration; to != nil {
			properties["DestinationResourceArn"] = aws.ToString(to.DestinationResourceArn)
		}
		return putTags(r, live.Tags, properties), nil
	},
})

func describeDestination(ctx context.Context, c *client, r *resource.Request) (*types.DeliveryDestination, error) {
	out, err := c.GetDeliveryDestination(ctx, &cloudwatchlogs.GetDeliveryDestinationInput{Name: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return out.DeliveryDestination, nil
}

// deliveries is the handler of AWS::Logs::Delivery. The physical ID is the one of the delivery.
var deliveries = resource.Handle(resource.Table[*client, types.Delivery]{
	Client: newClient,
	Create: resource.Create((*client).CreateDelivery, resource.Members{"Tags": resource.Left},
		func(out *cloudwatchlogs.CreateDeliveryOutput) *string { return out.Delivery.Id },
		func(r *resource.Request, in *cloudwatchlogs.CreateDeliveryInput) error {
			in.Tags = r.Wanted("Tags")
			return nil
		}),
	Find: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		pages := cloudwatchlogs.NewDescribeDeliveriesPaginator(c, &cloudwatchlogs.DescribeDeliveriesInput{})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			for _, d := range page.Deliveries {
				if id := aws.ToString(d.Id); r.Owns(d.Tags) && !slices.Contains(r.Replaced, id) {
					return id, nil
				}
			}
		}
		return "", resource.ErrNotFound
	},
	Describe: func(ctx context.Context, c *client, r *resource.Request) (*types.Delivery, error) {
		out, err := c.GetDelivery(ctx, &cloudwatchlogs.GetDeliveryInput{Id: &r.PhysicalID})
		if err != nil {
			return nil, err
		}
		return out.Delivery, nil
	},
	Configure: []resource.Step[*client]{
		{
			Properties: []string{"FieldDelimiter", "RecordFields"}, Update: true,
			Run: func(ctx context.Context, c *client, r *resource.Request) error {
				in := &cloudwatchlogs.UpdateDeliveryConfigurationInput{Id: &r.PhysicalID,
					FieldDelimiter: aws.String(r.Text("FieldDelimiter")), RecordFields: r.Texts("RecordFields")}
				if in.RecordFields == nil {
					in.RecordFields = []string{} // all again
				}
				_, err := c.UpdateDeliveryConfiguration(ctx, in)
				return err
			},
		},
		setTags(func(r *resource.Request) *string { return arnOf("delivery", r) }),
	},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteDelivery(ctx, &cloudwatchlogs.DeleteDeliveryInput{Id: &r.PhysicalID})
		return err
	},
	Attributes: func(r *resource.Request, live *types.Delivery) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn), "DeliveryId": r.PhysicalID,
			"DeliveryDestinationType": string(live.DeliveryDestinationType)}
	},
	Properties: func(_ context.Context, _ *client, r *resource.Request, live *types.Delivery) (map[string]any, error) {
		properties := resource.Encode(live, nil)
		for _, name := range []string{"Arn", "DeliveryDestinationType", "Id", "S3DeliveryConfiguration", "Tags"} {
			delete(properties, name)
		}
		return putTags(r, live.Tags, properties), nil
	},
})
