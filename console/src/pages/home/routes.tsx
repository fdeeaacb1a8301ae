import { redirect } from "react-router";
import type { Area } from "../../app/area";
import { Loading } from "../../components/Loading";

const area: Area = { routes: [{ path: "/", element: <Loading what="page" />, loader: () => redirect("/clusters") }] };

export default area;
