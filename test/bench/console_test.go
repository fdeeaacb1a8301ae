package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// BenchmarkConsole opens the console by a one-time link in a browser that has nothing of it, until the list of clusters
// is there, and takes input: until the browser has drawn it and has nothing else to do.
func BenchmarkConsole(b *testing.B) {
	chromium, d := browser.Start(b), harness.Start(b)
	const rounds = 5
	var times []time.Duration
	var kilobytes float64
	for range rounds {
		tab := browser.Open(b, chromium, d.Endpoint, 1280, 800)
		tab.Go(consoleLink(b, d))
		tab.See("No clusters")
		got := browser.Evaluate[struct{ Milliseconds, Kilobytes float64 }](tab,
			`new Promise((done) => requestIdleCallback(() => done({
				Milliseconds: performance.now(),
				Kilobytes: [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")]
					.filter((e) => e.name.includes("/console/")).reduce((sum, e) => sum + e.transferSize, 0) / 1000,
			})))`)
		times = append(times, fromMillis(got.Milliseconds))
		kilobytes = got.Kilobytes
	}
	median := quantile(times, 0.5)
	b.ReportMetric(median.Seconds(), "s")
	report(row{fmt.Sprintf("console: first page, cold, until it is interactive (median of %d)", rounds),
		fmt.Sprintf("%s, %.0f KB compressed", seconds(median), kilobytes), "1 s, 700 KB", ""})
}

// consoleLink returns the path of a one-time link.
func consoleLink(b *testing.B, d *harness.Daemon) string {
	b.Helper()
	out := d.Run("", harness.Binary(b), "console", "--no-browser", "--data-dir", d.Dir)
	return strings.TrimPrefix(strings.TrimSpace(out), d.Endpoint)
}

func fromMillis(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// BenchmarkConsoleAtScale looks at a cluster with ten thousand pods on a thousand instances (or as many as CORACLE_PODS
// and CORACLE_NODES say): at the map, and at the list of pods.
func BenchmarkConsoleAtScale(b *testing.B) {
	nodes, pods := number(b, "CORACLE_NODES", 1000), number(b, "CORACLE_PODS", 10000)
	d, client := crowdedCluster(b, nodes, pods)
	tab := browser.Open(b, browser.Start(b), d.Endpoint, 1600, 1000)
	tab.Go(consoleLink(b, d))
	tab.See("Health issues")
	measureMap(b, tab, nodes, pods)
	measurePodStatus(b, tab, client, pods)
}

// number returns the value of an environment variable.
func number(b *testing.B, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// crowdedCluster makes a cluster in a VPC with so many simulated instances, and so many pods on their addresses. No
// kubelet runs these: their status is what the benchmark says.
func crowdedCluster(b *testing.B, nodes, pods int) (*harness.Daemon, *kubernetes.Clientset) {
	const cluster = "crowded"
	d := harness.Start(b, "CORACLE_MACHINES=simulated")
	subnets := d.RoomySubnets()
	d.CreateCluster(cluster, version, d.ClusterRole(), subnets)
	s := clustertest.Of(b, d, cluster)
	api, image := ec2.NewFromConfig(d.Config()), s.AL2023(version)
	const at = 50 // instances a call
	var addresses []string
	for n := 0; n < nodes; n += at {
		out, err := api.RunInstances(b.Context(), &ec2.RunInstancesInput{
			ImageId: &image, InstanceType: ec2types.InstanceTypeM5Xlarge, MinCount: aws.Int32(1),
			MaxCount: aws.Int32(int32(min(at, nodes-n))),
			NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0),
				SubnetId: &subnets[n/at%len(subnets)], Groups: []string{s.Group},
				SecondaryPrivateIpAddressCount: aws.Int32(int32((pods + nodes - 1) / nodes))}},
		})
		if err != nil {
			b.Fatal(err)
		}
		for _, i := range out.Instances {
			for _, a := range i.NetworkInterfaces[0].PrivateIpAddresses {
				if !aws.ToBool(a.Primary) {
					addresses = append(addresses, *a.PrivateIpAddress)
				}
			}
		}
	}
	client, _ := kubernetesClient(b, d, cluster)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range pods {
		group.Go(func() error {
			return createRunningPod(b.Context(), client, fmt.Sprintf("web-%05d", i), addresses[i])
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return d, client
}

// createRunningPod creates a pod that no scheduler and no kubelet looks after, and says that it runs at an address.
func createRunningPod(ctx context.Context, client *kubernetes.Clientset, name, address string) error {
	api := client.CoreV1().Pods("default")
	pod, err := api.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "nginx", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
	_, err = api.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// mapScale is an expression: the scale at which the map is drawn; 0 before.
const mapScale = `Number(/scale\((.+)\)/.exec(
	document.querySelector(".map-canvas > g")?.getAttribute("transform"))?.[1] ?? 0)`

// measureMap opens the map in a page that is loaded anew, and moves it: all of it, in and out, and what is near.
func measureMap(b *testing.B, tab *browser.Tab, nodes, pods int) {
	tab.Go("/console/map")
	// Two frames later, what React has rendered is on the screen.
	drawn := func(expression string) time.Duration {
		return fromMillis(browser.Evaluate[float64](tab, `new Promise((done) => {
			const frame = () => requestAnimationFrame(() => (`+expression+`)
				? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : frame());
			frame();
		})`))
	}
	first := drawn(`document.querySelector(".map-canvas .frame") !== null`)
	all := drawn(fmt.Sprintf(
		`Number(/([\d,]+) pods/.exec(document.querySelector("main, body").innerText)?.[1].replaceAll(",", "") ?? 0) >= %d`,
		pods))
	report(row{fmt.Sprintf("console: map with %d nodes and %d pods, loaded anew, until it is painted", nodes, pods),
		fmt.Sprintf("%s; with all pods %s", seconds(first), seconds(all)), "2 s", ""})
	b.ReportMetric(first.Seconds(), "s-paint")
	tab.Screenshot("map")

	whole := browser.Evaluate[float64](tab, mapScale)
	rates := []string{"all of it " + moveFor(b, tab, drag)}
	rates = append(rates, "in and out "+moveFor(b, tab, zoom))
	for browser.Evaluate[float64](tab, mapScale) < max(0.6, whole) {
		tab.Do("zoom in", mouse(input.DispatchMouseEventParams{Type: "mouseWheel", DeltaY: -100}))
	}
	rates = append(rates, "near "+moveFor(b, tab, drag))
	tab.Screenshot("near")
	report(row{"console: the same map, frames per second while it moves (longest frame)",
		strings.Join(rates, ", "), "30", ""})

	var heap float64
	tab.Do("measure the memory", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, performance.Enable, performance.EnableParams{}); err != nil {
			return err
		}
		got, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
		for _, metric := range got.Metrics {
			if metric.Name == "JSHeapUsedSize" {
				heap = metric.Value / (1 << 20)
			}
		}
		return err
	}))
	report(row{"console: the same map, JavaScript heap of the page after that", fmt.Sprintf("%.0f MiB", heap),
		"200 MiB", ""})
	b.ReportMetric(heap, "MiB")
}

// mouse dispatches a mouse event in the middle of the map, or beside it.
func mouse(event input.DispatchMouseEventParams) chromedp.Action[chromedp.Void] {
	event.X, event.Y = event.X+500, event.Y+400
	if event.Type == "mouseWheel" {
		event.DeltaX = 1e-9 // it has to be there, and the protocol's package leaves out 0
	}
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, input.DispatchMouseEvent, event)
		return err
	})
}

// drag moves the map by a pointer that goes to and fro.
func drag(i int) input.DispatchMouseEventParams {
	const across = 40 // steps
	at := i % (2 * across)
	return input.DispatchMouseEventParams{Type: "mouseMoved", Button: "left", Buttons: 1,
		X: float64(min(at, 2*across-at) * 10), Y: float64(min(at, 2*across-at) * 3)}
}

// zoom turns the wheel to and fro.
func zoom(i int) input.DispatchMouseEventParams {
	return input.DispatchMouseEventParams{Type: "mouseWheel", DeltaY: float64(i/20%2*2-1) * 60}
}

// moveFor moves the map for some seconds, an event as soon as the page has taken the one before, and returns the number
// of frames in a second, and the longest time without one.
func moveFor(b *testing.B, tab *browser.Tab, event func(int) input.DispatchMouseEventParams) string {
	b.Helper()
	tab.Do("press", mouse(input.DispatchMouseEventParams{Type: "mousePressed", Button: "left", Buttons: 1, ClickCount: 1}))
	browser.Evaluate[int](tab, `(() => {
		const own = (window.frames = []);
		const frame = (at) => {
			own.push(at);
			if (window.frames === own) requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
		return 0;
	})()`)
	began := time.Now()
	for i := 0; time.Since(began) < 4*time.Second; i++ {
		tab.Do("move", mouse(event(i)))
	}
	frames := browser.Evaluate[[]float64](tab,
		`(() => { const all = window.frames; window.frames = null; return all; })()`)
	tab.Do("release", mouse(input.DispatchMouseEventParams{Type: "mouseReleased", Button: "left", ClickCount: 1}))
	var longest float64
	for i := 1; i < len(frames); i++ {
		longest = max(longest, frames[i]-frames[i-1])
	}
	rate := 1000 * float64(len(frames)-1) / (frames[len(frames)-1] - frames[0])
	return fmt.Sprintf("%.0f (%.0f ms)", rate, longest)
}

// measurePodStatus changes the status of a pod, and watches for it in the list of all pods.
func measurePodStatus(b *testing.B, tab *browser.Tab, client *kubernetes.Clientset, pods int) {
	const name, rounds = "a-pod", 20
	api := client.CoreV1().Pods("default")
	if err := createRunningPod(b.Context(), client, name, "10.0.0.4"); err != nil {
		b.Fatal(err)
	}
	tab.Go("/console/clusters/crowded/resources?resource=pods")
	tab.Until("see the first of all pods", fmt.Sprintf(`[...document.querySelectorAll("table a")].some(
		(a) => a.textContent === %q) && /Pod\s*\(\d{%d,}\)/.test(document.body.innerText)`, name,
		len(strconv.Itoa(pods))))
	var times []time.Duration
	for i := range rounds {
		reason := fmt.Sprintf("Changed%dTimes", i)
		browser.Evaluate[int](tab, fmt.Sprintf(`(() => {
			window.seenAt = new Promise((done) => {
				const look = new MutationObserver(() => {
					if (!document.querySelector("table").textContent.includes(%q)) return;
					look.disconnect();
					requestAnimationFrame(() => requestAnimationFrame(() =>
						done(performance.timeOrigin + performance.now())));
				});
				look.observe(document.body, { subtree: true, childList: true, characterData: true });
			});
			return 0;
		})()`, reason))
		began := time.Now()
		if _, err := api.Patch(b.Context(), name, types.StrategicMergePatchType, fmt.Appendf(nil,
			`{"status":{"containerStatuses":[{"name":"main","image":"nginx","imageID":"","ready":false,"restartCount":0,`+
				`"state":{"waiting":{"reason":%q}}}]}}`, reason), metav1.PatchOptions{}, "status"); err != nil {
			b.Fatal(err)
		}
		seen := browser.Evaluate[float64](tab, "seenAt")
		times = append(times, fromMillis(seen-float64(began.UnixMicro())/1000))
	}
	median, worst := quantile(times, 0.5), slices.Max(times)
	b.ReportMetric(float64(median.Milliseconds()), "ms-status")
	report(row{fmt.Sprintf("console: status of a pod, from the request that changes it until it is on the screen, in a "+
		"list of %d (median of %d)", pods, rounds),
		fmt.Sprintf("%s, at most %s", milliseconds(median), milliseconds(worst)), "300 ms", ""})
}

// BenchmarkConsoleMemory weighs the daemon without a console, and with ten of them, each of which follows objects of a
// cluster.
func BenchmarkConsoleMemory(b *testing.B) {
	const consoles, settled = 10, 130 * time.Second // Go collects garbage every two minutes, at the latest
	// With the garbage collection that the daemon has without variables of whoever runs this.
	chromium, d := browser.Start(b), harness.Start(b, "GOGC=", "GOMEMLIMIT=")
	d.CreateCluster("web", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("web", "ACTIVE")
	<-time.After(settled)
	before := pss(b, d.PID())
	for range consoles {
		tab := browser.Open(b, chromium, d.Endpoint, 1280, 800)
		tab.Go(consoleLink(b, d))
		tab.See("Health issues")
		tab.Go("/console/clusters/web/resources?resource=pods")
		tab.See("coredns-")
	}
	<-time.After(settled)
	more := float64(pss(b, d.PID())-before) / (1 << 20)
	b.ReportMetric(more, "MiB")
	report(row{fmt.Sprintf("console: memory of the daemon for %d open consoles (PSS)", consoles),
		fmt.Sprintf("%.0f MiB more than the %d MiB without", more, before>>20), "20 MiB", ""})
}
