import { type Area, page } from "../../app/area";

const insights = { text: "Logs Insights", to: "/logs-insights" };
const tail = { text: "Live Tail", to: "/live-tail" };

const area: Area = {
  links: [
    { order: 300, section: "CloudWatch", ...insights },
    { order: 310, section: "CloudWatch", ...tail },
  ],
  routes: [
    page("/logs-insights", () => [insights], () => import("./LogsInsightsPage")),
    page("/live-tail", () => [tail], () => import("./LiveTailPage")),
  ],
};

export default area;
