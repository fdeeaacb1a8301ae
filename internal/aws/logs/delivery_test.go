package logs_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"

	coracle "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// balancer records a load balancer, and returns its ARN.
func (w *fixture) balancer(kind, name string) string {
	w.t.Helper()
	b := record.LoadBalancer{Account: account, Region: region, Kind: kind, Name: name, ID: "50dc6c495c0c9188",
		Tags: map[string]string{"team": "web"}}
	if _, err := record.LoadBalancers(w.store).Create(w.t.Context(), b.Key(), b); err != nil {
		w.t.Fatal(err)
	}
	return b.ARN()
}

func toGroup(name string) *types.DeliveryDestinationConfiguration {
	return &types.DeliveryDestinationConfiguration{DestinationResourceArn: aws.String(groupARN + name)}
}

const (
	sourceARN      = "arn:aws:logs:" + region + ":" + account + ":delivery-source:"
	destinationARN = "arn:aws:logs:" + region + ":" + account + ":delivery-destination:"
)

// deliver makes a source of access logs, a destination and a delivery, and returns its ID.
func (w *fixture) deliver(name, balancer string) string {
	w.t.Helper()
	ctx := w.t.Context()
	_, err1 := w.client.PutDeliverySource(ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: &name,
		LogType: aws.String(vended.ApplicationAccess), ResourceArn: &balancer, Tags: map[string]string{"a": "b"}})
	_, err2 := w.client.PutDeliveryDestination(ctx, &cloudwatchlogs.PutDeliveryDestinationInput{Name: &name,
		DeliveryDestinationConfiguration: toGroup("g")})
	out, err3 := w.client.CreateDelivery(ctx, &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: &name,
		DeliveryDestinationArn: aws.String(destinationARN + name), Tags: map[string]string{"c": "d"}})
	if err := errors.Join(err1, err2, err3); err != nil {
		w.t.Fatal(err)
	}
	return *out.Delivery.Id
}

// TestDeliveries takes a delivery of access logs through its life.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	web := w.balancer(record.ApplicationLoadBalancer, "web")
	id := w.deliver("web", web)
	source, err := c.GetDeliverySource(ctx, &cloudwatchlogs.GetDeliverySourceInput{Name: aws.String("web")})
	if err != nil {
		t.Fatal(err)
	}
	if s := source.DeliverySource; *s.Arn != sourceARN+"web" || *s.Service != "elasticloadbalancing" ||
		!slices.Equal(s.ResourceArns, []string{web}) || s.Status != "ACTIVE" || s.Tags["a"] != "b" {
		t.Errorf("the source is %+v", s)
	}
	destination, err := c.GetDeliveryDestination(ctx,
		&cloudwatchlogs.GetDeliveryDestinationInput{Name: aws.String("web")})
	if err != nil {
		t.Fatal(err)
	}
	if d := destination.DeliveryDestination; d.OutputFormat != "json" || d.DeliveryDestinationType != "CWL" {
		t.Errorf("the destination is %+v", d)
	}
	delivery := func() *types.Delivery {
		t.Helper()
		out, err := c.GetDelivery(ctx, &cloudwatchlogs.GetDeliveryInput{Id: &id})
		if err != nil {
			t.Fatal(err)
		}
		return out.Delivery
	}
	if d := delivery(); *d.DeliverySourceName != "web" || *d.DeliveryDestinationArn != destinationARN+"web" ||
		len(d.RecordFields) != 34 || d.Tags["c"] != "d" {
		t.Errorf("the delivery is %+v", d)
	}
	if _, err := c.UpdateDeliveryConfiguration(ctx, &cloudwatchlogs.UpdateDeliveryConfigurationInput{Id: &id,
		RecordFields: []string{"time", "client:port"}}); err != nil {
		t.Fatal(err)
	}
	if got := delivery().RecordFields; !slices.Equal(got, []string{"time", "client:port"}) {
		t.Errorf("the fields are %v", got)
	}

	// Tags, as Terraform reads and changes them.
	for _, arn := range []string{sourceARN + "web", destinationARN + "web", *delivery().Arn} {
		_, err1 := c.TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: &arn,
			Tags: map[string]string{"x": "y", "z": ""}})
		_, err2 := c.UntagResource(ctx, &cloudwatchlogs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"z"}})
		out, err3 := c.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})
		if err := errors.Join(err1, err2, err3); err != nil || out.Tags["x"] != "y" {
			t.Errorf("%s has the tags %v, %v", arn, out, err)
		}
		if _, ok := out.Tags["z"]; ok {
			t.Errorf("%s has the tags %v", arn, out.Tags)
		}
	}

	// Lists, by pages and filters.
	w.deliver("second", w.balancer(record.ApplicationLoadBalancer, "second"))
	sources, err := c.DescribeDeliverySources(ctx, &cloudwatchlogs.DescribeDeliverySourcesInput{
		ResourceArns: []string{web}})
	if err != nil || len(sources.DeliverySources) != 1 || *sources.DeliverySources[0].Name != "web" {
		t.Errorf("the sources are %+v, %v", sources, err)
	}
	destinations, err := c.DescribeDeliveryDestinations(ctx, &cloudwatchlogs.DescribeDeliveryDestinationsInput{
		Names: []string{"second"}})
	if err != nil || len(destinations.DeliveryDestinations) != 1 {
		t.Errorf("the destinations are %+v, %v", destinations, err)
	}
	var all []string
	pages := cloudwatchlogs.NewDescribeDeliveriesPaginator(c, &cloudwatchlogs.DescribeDeliveriesInput{
		Limit: aws.Int32(1)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil || len(page.Deliveries) != 1 {
			t.Fatalf("a page is %+v, %v", page, err)
		}
		all = append(all, *page.Deliveries[0].DeliverySourceName)
	}
	slices.Sort(all)
	if !slices.Equal(all, []string{"second", "web"}) {
		t.Errorf("the deliveries are of %v", all)
	}

	// A source outlives its load balancer.
	row, err := record.LoadBalancers(w.store).Get(ctx, record.LoadBalancerKey(account, region, "application", "web"))
	if err == nil {
		err = record.LoadBalancers(w.store).Delete(ctx, row)
	}
	if err != nil {
		t.Fatal(err)
	}
	source, err = c.GetDeliverySource(ctx, &cloudwatchlogs.GetDeliverySourceInput{Name: aws.String("web")})
	if err != nil || source.DeliverySource.Status != "INACTIVE" ||
		source.DeliverySource.StatusReason != "RESOURCE_DELETED" {
		t.Errorf("the source is %+v, %v", source, err)
	}

	if f := failureOf(t, call(c.DeleteDeliverySource, ctx,
		&cloudwatchlogs.DeleteDeliverySourceInput{Name: aws.String("web")})()); f.code != "ConflictException" {
		t.Errorf("a source with a delivery is deleted: %v", f)
	}
	if f := failureOf(t, call(c.DeleteDeliveryDestination, ctx,
		&cloudwatchlogs.DeleteDeliveryDestinationInput{Name: aws.String("web")})()); f.code != "ConflictException" {
		t.Errorf("a destination with a delivery is deleted: %v", f)
	}
	steps := map[string]func() error{
		"1": call(c.DeleteDelivery, ctx, &cloudwatchlogs.DeleteDeliveryInput{Id: &id}),
		"2": call(c.DeleteDeliverySource, ctx, &cloudwatchlogs.DeleteDeliverySourceInput{Name: aws.String("web")}),
		"3": call(c.DeleteDeliveryDestination, ctx,
			&cloudwatchlogs.DeleteDeliveryDestinationInput{Name: aws.String("web")}),
	}
	for _, n := range slices.Sorted(maps.Keys(steps)) {
		if err := steps[n](); err != nil {
			t.Errorf("step %s: %v", n, err)
		}
		if f := failureOf(t, steps[n]()); f.code != "ResourceNotFoundException" {
			t.Errorf("step %s again: %v", n, f)
		}
	}
}

// TestConfigurationTemplates lists what can be delivered.
func TestConfigurationTemplates(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	out, err := w.client.DescribeConfigurationTemplates(t.Context(),
		&cloudwatchlogs.DescribeConfigurationTemplatesInput{Service: aws.String("elasticloadbalancing"),
			LogTypes: []string{vended.NetworkAccess}})
	if err != nil || len(out.ConfigurationTemplates) != 1 {
		t.Fatalf("the templates are %+v, %v", out, err)
	}
	template := out.ConfigurationTemplates[0]
	if len(template.AllowedFields) != 22 || *template.AllowedFields[5].Name != "client:port" ||
		*template.AllowedActionForAllowVendedLogsDeliveryForResource !=
			"elasticloadbalancing:AllowVendedLogDeliveryForResource" {
		t.Errorf("the template is %+v", template)
	}
	if out, err := w.client.DescribeConfigurationTemplates(t.Context(),
		&cloudwatchlogs.DescribeConfigurationTemplatesInput{DeliveryDestinationTypes: []types.DeliveryDestinationType{
			"S3"}}); err != nil || len(out.ConfigurationTemplates) != 0 {
		t.Errorf("for S3 the templates are %+v, %v", out, err)
	}
}

// TestDeliveryRefusals has bad requests about deliveries. None changes anything.
func TestDeliveryRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	web, net := w.balancer(record.ApplicationLoadBalancer, "web"), w.balancer(record.NetworkLoadBalancer, "net")
	id := w.deliver("web", web)
	putSource := func(name, kind, arn string) func() error {
		return call(c.PutDeliverySource, ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: &name, LogType: &kind,
			ResourceArn: &arn})
	}
	putDestination := func(arn string, format types.OutputFormat, kind types.DeliveryDestinationType) func() error {
		in := &cloudwatchlogs.PutDeliveryDestinationInput{Name: aws.String("d"), OutputFormat: format,
			DeliveryDestinationType: kind}
		if arn != "" {
			in.DeliveryDestinationConfiguration = &types.DeliveryDestinationConfiguration{DestinationResourceArn: &arn}
		}
		return call(c.PutDeliveryDestination, ctx, in)
	}
	create := func(source, destination string, change func(*cloudwatchlogs.CreateDeliveryInput)) func() error {
		in := &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: &source, DeliveryDestinationArn: &destination}
		if change != nil {
			change(in)
		}
		return call(c.CreateDelivery, ctx, in)
	}
	if err := errors.Join(putSource("net", vended.NetworkAccess, net)(),
		putDestination(groupARN+"g:*", "plain", "CWL")()); err != nil {
		t.Fatal(err)
	}
	app := record.LoadBalancingARN(account, region, "loadbalancer/app/")
	for _, tt := range []struct {
		name string
		do   func() error
		code string
		says string
	}{
		{"log type", putSource("x", "WAF_LOGS", web), "ValidationException", "ALB_ACCESS_LOGS"},
		{"log type of a Network Load Balancer", putSource("x", vended.NetworkAccess, web), "ValidationException", "/net/"},
		{"health checks", putSource("x", "ALB_HEALTH_CHECK_LOGS", web), "ValidationException", "not delivered"},
		{"no such load balancer", putSource("x", vended.ApplicationAccess, app+"web/0000000000000000"),
			"ResourceNotFoundException", "does not exist"},
		{"no ARN", putSource("x", vended.ApplicationAccess, "web"), "ValidationException", app},
		{"another account", putSource("x", vended.ApplicationAccess,
			record.LoadBalancingARN("444455556666", region, "loadbalancer/app/web/1")), "ValidationException", account},
		{"a second source of a log", putSource("x", vended.ApplicationAccess, web), "ConflictException", "web"},
		{"another resource of a source with deliveries", putSource("web", vended.ApplicationConnections, web),
			"ConflictException", "1 deliveries"},
		{"name of a source", putSource("x:y", vended.ApplicationAccess, web), "InvalidParameterException", "name"},
		{"configuration of a source", call(c.PutDeliverySource, ctx, &cloudwatchlogs.PutDeliverySourceInput{
			Name: aws.String("x"), LogType: aws.String(vended.ApplicationConnections), ResourceArn: &web,
			DeliverySourceConfiguration: map[string]string{"samplingRate": "50"}}), "ValidationException", "leave out"},
		{"S3", putDestination("arn:aws:s3:::bucket", "", ""), "ValidationException", "log group"},
		{"Firehose", putDestination("arn:aws:firehose:"+region+":"+account+":deliverystream/s", "", ""),
			"ValidationException", "log group"},
		{"X-Ray", putDestination("", "", "XRAY"), "ValidationException", "log group"},
		{"no destination", putDestination("", "", ""), "ValidationException", "destinationResourceArn"},
		{"no log group", putDestination("g", "", ""), "ValidationException", groupARN},
		{"a log group of another account", putDestination("arn:aws:logs:"+region+":444455556666:log-group:g", "", ""),
			"ValidationException", groupARN},
		{"a log group that there is not", putDestination(groupARN+"none", "", ""), "ResourceNotFoundException", "log group"},
		{"parquet", putDestination(groupARN+"g", "parquet", ""), "ValidationException", "json or plain"},
		{"no such source", create("none", destinationARN+"web", nil), "ResourceNotFoundException", "none"},
		{"no such destination", create("net", destinationARN+"none", nil), "ResourceNotFoundException", "none"},
		{"no ARN of a destination", create("net", groupARN+"g", nil), "ValidationException", destinationARN},
		{"a delivery that there is", create("web", destinationARN+"web", nil), "ConflictException", id},
		{"a field that there is not", create("net", destinationARN+"web", func(in *cloudwatchlogs.CreateDeliveryInput) {
			in.RecordFields = []string{"elb_status_code"}
		}), "ValidationException", "tls_cipher"},
		{"a field twice", create("net", destinationARN+"web", func(in *cloudwatchlogs.CreateDeliveryInput) {
			in.RecordFields = []string{"time", "time"}
		}), "ValidationException", "twice"},
		{"a delimiter of JSON", create("net", destinationARN+"web", func(in *cloudwatchlogs.CreateDeliveryInput) {
			in.FieldDelimiter = aws.String(",")
		}), "ValidationException", "plain"},
		{"a delimiter", create("net", destinationARN+"d", func(in *cloudwatchlogs.CreateDeliveryInput) {
			in.FieldDelimiter = aws.String(";")
		}), "ValidationException", `";"`},
		{"S3 configuration", create("net", destinationARN+"d", func(in *cloudwatchlogs.CreateDeliveryInput) {
			in.S3DeliveryConfiguration = &types.S3DeliveryConfiguration{SuffixPath: aws.String("x")}
		}), "ValidationException", "S3"},
		{"configuration of no delivery", call(c.UpdateDeliveryConfiguration, ctx,
			&cloudwatchlogs.UpdateDeliveryConfigurationInput{Id: aws.String("0")}), "ResourceNotFoundException", "0"},
		{"a field that there is not, later", call(c.UpdateDeliveryConfiguration, ctx,
			&cloudwatchlogs.UpdateDeliveryConfigurationInput{Id: &id, RecordFields: []string{"x"}}), "ValidationException",
			"elb_status_code"},
		{"tags of a delivery that there is not", call(c.TagResource, ctx, &cloudwatchlogs.TagResourceInput{
			ResourceArn: aws.String(sourceARN + "none"), Tags: map[string]string{"a": "b"}}), "ResourceNotFoundException",
			"none"},
	} {
		err := tt.do()
		if err == nil {
			t.Errorf("%s: there is no error", tt.name)
			continue
		}
		if f := failureOf(t, err); f.code != tt.code || !strings.Contains(f.message, tt.says) {
			t.Errorf("%s: %v, want %s with %q", tt.name, f, tt.code, tt.says)
		}
	}
	got, err := c.DescribeDeliverySources(ctx, &cloudwatchlogs.DescribeDeliverySourcesInput{})
	if err != nil || len(got.DeliverySources) != 2 || len(got.DeliverySources[1].Tags) != 1 {
		t.Errorf("the sources are %+v, %v", got, err)
	}
	// Quotas.
	for n := range 10 - 1 {
		d := record.LogDelivery{Account: account, Region: region, ID: fmt.Sprint(n), Source: "web", Destination: "x"}
		if _, err := record.LogDeliveries(w.store).Create(ctx, d.Key(), d); err != nil {
			t.Fatal(err)
		}
	}
	if f := failureOf(t, create("web", destinationARN+"d", nil)()); f.code != "ServiceQuotaExceededException" ||
		!strings.Contains(f.message, "web has 10") {
		t.Errorf("one more delivery of a source: %v", f)
	}
	for n := range 1000 - 2 {
		d := record.LogDeliverySource{Account: account, Region: region, Name: fmt.Sprint("n", n)}
		if _, err := record.LogDeliverySources(w.store).Create(ctx, d.Key(), d); err != nil {
			t.Fatal(err)
		}
	}
	if f := failureOf(t, putSource("x", vended.ApplicationConnections, web)()); f.code != "ServiceQuotaExceededException" {
		t.Errorf("beyond the quota: %v", f)
	}
}

// TestDeliveryTargets has the permissions that requests about deliveries need.
func TestDeliveryTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	web := w.balancer(record.ApplicationLoadBalancer, "web")
	id := w.deliver("web", web)
	name := aws.String("web")
	kind := aws.String(vended.ApplicationAccess)
	for _, tt := range []struct {
		name  string
		do    func() error
		wants []string
	}{
		{"PutDeliverySource", call(c.PutDeliverySource, ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: name,
			LogType: kind, ResourceArn: &web, Tags: map[string]string{"t": "u"}}), []string{
			"logs:PutDeliverySource " + sourceARN + "web aws:RequestTag/t=u aws:ResourceTag/a=b aws:TagKeys=t",
			"logs:TagResource " + sourceARN + "web aws:RequestTag/t=u aws:ResourceTag/a=b aws:TagKeys=t",
			"elasticloadbalancing:AllowVendedLogDeliveryForResource " + web + " aws:ResourceTag/team=web"}},
		{"PutDeliveryDestination", call(c.PutDeliveryDestination, ctx, &cloudwatchlogs.PutDeliveryDestinationInput{
			Name: name, DeliveryDestinationConfiguration: toGroup("g:*")}), []string{
			"logs:PutDeliveryDestination " + destinationARN + "web"}},
		{"CreateDelivery", call(c.CreateDelivery, ctx, &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: name,
			DeliveryDestinationArn: aws.String(destinationARN + "none")}), []string{
			"logs:CreateDelivery arn:aws:logs:" + region + ":" + account + ":delivery:*",
			"logs:CreateDelivery " + sourceARN + "web aws:ResourceTag/a=b",
			"logs:CreateDelivery " + destinationARN + "none"}},
		{"DeleteDelivery", call(c.DeleteDelivery, ctx, &cloudwatchlogs.DeleteDeliveryInput{Id: &id}), []string{
			"logs:DeleteDelivery arn:aws:logs:" + region + ":" + account + ":delivery:" + id + " aws:ResourceTag/c=d"}},
		{"UntagResource", call(c.UntagResource, ctx, &cloudwatchlogs.UntagResourceInput{
			ResourceArn: aws.String(sourceARN + "web"), TagKeys: []string{"t"}}), []string{
			"logs:UntagResource " + sourceARN + "web aws:ResourceTag/a=b aws:TagKeys=t"}},
		{"a load balancer of another account", call(c.PutDeliverySource, ctx, &cloudwatchlogs.PutDeliverySourceInput{
			Name: name, LogType: kind, ResourceArn: aws.String(strings.ReplaceAll(web, account, "444455556666"))}), []string{
			"logs:PutDeliverySource " + sourceARN + "web aws:ResourceTag/a=b",
			"elasticloadbalancing:AllowVendedLogDeliveryForResource " + strings.ReplaceAll(web, account, "444455556666") +
				" of 444455556666"}},
	} {
		w.mu.Lock()
		w.Asked = nil
		w.mu.Unlock()
		_ = tt.do() // some are refused
		var got []string
		for _, target := range w.Asked {
			text := target.Action + " " + target.Resource
			keys := own(target)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				text += " " + k + "=" + keys[k]
			}
			if target.Owner != "" {
				text += " of " + target.Owner
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(tt.wants, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool {
		return t.Action == "elasticloadbalancing:AllowVendedLogDeliveryForResource"
	}
	if f := failureOf(t, call(c.PutDeliverySource, ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: name, LogType: kind,
		ResourceArn: &web})()); f.code != "AccessDeniedException" {
		t.Errorf("without the load balancer's permission: %v", f)
	}
}

// TestTagsOfDeliveries has tags set with logs:TagResource and removed with logs:UntagResource alone: requests to change
// what exists take none and leave all, also those that services have set.
func TestTagsOfDeliveries(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	w.group("g")
	web := w.balancer(record.ApplicationLoadBalancer, "web")
	w.deliver("web", web)
	want := map[string]string{"a": "b", "aws:cloudformation:stack-name": "s"}
	key := record.LogDeliveryKey(account, region, "web")
	_, err1 := record.LogDeliverySources(w.store).Modify(ctx, key, func(d *record.LogDeliverySource) error {
		d.Tags = want
		return nil
	})
	_, err2 := record.LogDeliveryDestinations(w.store).Modify(ctx, key, func(d *record.LogDeliveryDestination) error {
		d.Tags = want
		return nil
	})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	putSource := func(name string, tags map[string]string) error {
		return call(c.PutDeliverySource, ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: &name, ResourceArn: &web,
			LogType: aws.String(vended.ApplicationAccess), Tags: tags})()
	}
	putDestination := func(name string, tags map[string]string) error {
		return call(c.PutDeliveryDestination, ctx, &cloudwatchlogs.PutDeliveryDestinationInput{Name: &name,
			DeliveryDestinationConfiguration: toGroup("g:*"), Tags: tags})()
	}
	createDelivery := func(_ string, tags map[string]string) error {
		return call(c.CreateDelivery, ctx, &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: aws.String("web"),
			DeliveryDestinationArn: aws.String(destinationARN + "new"), Tags: tags})()
	}
	for what, put := range map[string]func(string, map[string]string) error{
		"source": putSource, "destination": putDestination} {
		for _, tags := range []map[string]string{{"b": "c"}, {"a": "c"}} {
			if f := failureOf(t, put("web", tags)); f.code != "ConflictException" || !strings.Contains(f.message, "created") {
				t.Errorf("a %s that exists, with tags: %v", what, f)
			}
		}
		if err := put("web", nil); err != nil {
			t.Errorf("a %s that exists, without tags: %v", what, err)
		}
	}
	source, err1 := record.LogDeliverySources(w.store).Get(ctx, key)
	destination, err2 := record.LogDeliveryDestinations(w.store).Get(ctx, key)
	if err := errors.Join(err1, err2); err != nil || !maps.Equal(source.Value.Tags, want) ||
		!maps.Equal(destination.Value.Tags, want) {
		t.Errorf("the tags are %v and %v, %v", source.Value.Tags, destination.Value.Tags, err)
	}

	// New ones.
	w.Deny = func(_ wire.Caller, t wire.Target) bool {
		return t.Action == "logs:TagResource" && slices.Contains(t.Conditions["aws:TagKeys"], "a") &&
			slices.Equal(t.Conditions["aws:RequestTag/a"], []string{"b"})
	}
	row, err := record.LogDeliveries(w.store).List(ctx, "")
	if err == nil {
		err = record.LogDeliveries(w.store).Delete(ctx, row[0])
	}
	if err == nil {
		err = record.LogDeliverySources(w.store).Delete(ctx, source)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		put  func(string, map[string]string) error
	}{{"web", putSource}, {"new", putDestination}, {"", createDelivery}} {
		if f := failureOf(t, step.put(step.name, map[string]string{"a": "b"})); f.code != "AccessDeniedException" {
			t.Errorf("%q with a tag that may not be set: %v", step.name, f)
		}
		if err := step.put(step.name, map[string]string{"x": "y"}); err != nil {
			t.Errorf("%q with another tag: %v", step.name, err)
		}
	}
}

// TestDeliveryStreams makes a stream once, and none without a group.
func TestDeliveryStreams(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g")
	s := coracle.NewDeliveryStreams(w.store)
	source := record.LogDeliverySource{Account: account, Region: region, Name: "web", LogType: vended.ApplicationAccess,
		ResourceARN: record.LoadBalancingARN(account, region, "loadbalancer/app/web/1")}
	if _, _, err := s.Ensure(t.Context(), source, "g"); !errors.Is(err, vended.ErrRefused) {
		t.Errorf("without a resource policy: %v", err)
	}
	w.policy("g", admits)
	group, stream, err := s.Ensure(t.Context(), source, "g")
	if err != nil || group == 0 || stream == 0 {
		t.Fatal(group, stream, err)
	}
	if g, again, err := s.Ensure(t.Context(), source, "g"); err != nil || g != group || again != stream {
		t.Errorf("again it is %d in %d, %v", again, g, err)
	}
	if _, _, err := s.Ensure(t.Context(), source, "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without a group: %v", err)
	}
	out, err := w.client.DescribeLogStreams(t.Context(), &cloudwatchlogs.DescribeLogStreamsInput{
		LogGroupName: aws.String("g")})
	if err != nil || len(out.LogStreams) != 1 || *out.LogStreams[0].LogStreamName != "ALB_ACCESS_LOGS_app/web/1" {
		t.Errorf("the streams are %+v, %v", out, err)
	}
}
