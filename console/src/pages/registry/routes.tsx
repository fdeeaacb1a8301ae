import { type Area, page } from "../../app/area";

const repositories = { text: "Repositories", to: "/repositories" };

const area: Area = {
  links: [{ order: 700, section: "Container registry", ...repositories }],
  routes: [
    page("/repositories", () => [repositories], () => import("./RepositoriesPage")),
    page(
      "/repositories/:repository",
      ({ repository = "" }) => [
        repositories,
        { text: repository, to: `/repositories/${encodeURIComponent(repository)}` },
      ],
      () => import("./RepositoryPage"),
    ),
  ],
};

export default area;
