import { redirect } from "react-router";
import type { Area } from "../../app/area";

const area: Area = { routes: [{ path: "/", loader: () => redirect("/clusters") }] };

export default area;
