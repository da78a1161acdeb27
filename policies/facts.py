"""Facts about a program from its resources alone: what belongs together, and what each says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from .grant import PUBSUB_AGENT, Grant
from .resource import ACCOUNT, SCHEDULER_JOB, SERVICE, SERVICE_IDENTITY, SUBSCRIPTION, TOPIC, Resource
from .service import Service, host
from .subscription import Delivery, Subscription
from .workload import KINDS, Role, Workload


class Facts:
    """What the rules look at.

    Args:
        resources: all resources of the program, or one of them for rules that need no other.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources = tuple(resources)
        self._by_urn = {resource.urn: resource for resource in self.resources}

    def of(self, *types: str) -> list[Resource]:
        """Resources of these types, in their order."""
        return [resource for resource in self.resources if resource.type in types]

    @property
    def stack(self) -> str:
        """Name of the stack, "" where there are no resources."""
        return self.resources[0].stack if self.resources else ""

    @cached_property
    def services(self) -> list[Service]:
        """Cloud Run services."""
        return [Service(resource) for resource in self.of(SERVICE)]

    @cached_property
    def workloads(self) -> list[Workload]:
        """Everything that Cloud Run runs, services among it."""
        return [Workload(resource) for resource in self.of(*KINDS)]

    @cached_property
    def subscriptions(self) -> list[Subscription]:
        """Subscriptions of every kind."""
        return [Subscription(resource) for resource in self.of(SUBSCRIPTION)]

    @cached_property
    def pushes(self) -> list[Subscription]:
        """Subscriptions that push."""
        return [subscription for subscription in self.subscriptions if subscription.pushes]

    @cached_property
    def grants(self) -> list[Grant]:
        """Grants of one role to one member."""
        numbers = frozenset(number for service in self.services for number in service.project_numbers)
        given = [resource for resource in self.resources if resource.is_grant]
        return [Grant(resource, self._member(resource, numbers), numbers) for resource in given]

    @cached_property
    def held(self) -> list[Grant]:
        """Grants that apply whatever happens: those without a condition."""
        return [grant for grant in self.grants if not grant.is_conditional]

    def held_on(self, resource: Resource | None, name: str | None = None) -> list[Grant]:
        """Grants that apply to a resource, by themselves or with its project.

        Args:
            resource: the resource, None where the program does not declare it.
            name: what a grant may call it.
        """
        return [
            grant
            for grant in self.held
            if grant.is_wide
            or (resource is not None and grant.is_on(resource))
            or (name is not None and grant.target == name)
        ]

    @cached_property
    def identities(self) -> frozenset[str]:
        """Accounts that something of the program runs, pushes or calls as."""
        running = {self.runs_as(workload) for workload in self.workloads}
        return frozenset(running | self.calling) - {""}

    @cached_property
    def calling(self) -> frozenset[str]:
        """Accounts with which something pushes or calls."""
        pushing = {self.pushes_as(push) for push in self.pushes}
        return frozenset(pushing | {self.calls_as(job) for job in self.of(SCHEDULER_JOB)}) - {""}

    def account_of(self, grant: Grant) -> str:
        """The account that a grant on an account is about, see `account`."""
        return self.account(grant.resource, (grant.target or "").rpartition("/")[2], "serviceAccountId")

    @cached_property
    def deliveries(self) -> list[Delivery]:
        """Subscriptions with the services that they push to."""
        paired = ((subscription, self.target(subscription)) for subscription in self.pushes)
        return [Delivery(subscription, service) for subscription, service in paired if service is not None]

    @property
    def work(self) -> list[Delivery]:
        """Deliveries of work: all but those to an API, whose routes answer at once."""
        return [delivery for delivery in self.deliveries if delivery.service.role is not Role.API]

    @property
    def sources(self) -> list[Subscription]:
        """Subscriptions that push work: all but those that push dead letters, which have none of their own."""
        return [push for push in self.pushes if self.topic_of(push) not in self.dead_letter_topics]

    @cached_property
    def dead_letter_topics(self) -> frozenset[str]:
        """Names of the topics that dead letters go to."""
        named = (self.dead_letter_topic_of(subscription) for subscription in self.subscriptions)
        return frozenset(name for name in named if name is not None)

    def target(self, subscription: Subscription) -> Service | None:
        """The service that it pushes to: the one that its push settings came from, else the one whose address the
        endpoint is, else the one that it waits for.
        """
        declared = {service.urn: service for service in self.services}
        made_from = [urn for urn in subscription.resource.came_from("pushConfig") if urn in declared]
        if len(made_from) == 1:
            return declared[made_from[0]]
        endpoint = subscription.properties.known_text("pushConfig", "pushEndpoint")
        if endpoint is not None and (found := self.service_at(endpoint)) is not None:
            return found
        awaited = [urn for urn in subscription.resource.dependencies if urn in declared]
        return declared[awaited[0]] if len(awaited) == 1 else None

    def service_at(self, url: str) -> Service | None:
        """The service that a URL leads to, whatever its scheme: that it must be https is a rule of its own."""
        for service in self.services:
            if service.has_name_in(url) or host(url) in {host(address) for address in service.addresses}:
                return service
        return None

    def topic_of(self, subscription: Subscription) -> str | None:
        """Name of the topic that it is on, see `_topic`."""
        return self._topic(subscription.resource, "topic", subscription.properties.known_text("topic"))

    def dead_letter_topic_of(self, subscription: Subscription) -> str | None:
        """Name of the topic that its dead letters go to, see `_topic`."""
        text = subscription.properties.known_text("deadLetterPolicy", "deadLetterTopic")
        return self._topic(subscription.resource, "deadLetterPolicy", text)

    def topic(self, name: str) -> Resource | None:
        """The topic of a name as `topic_of` gives it, None where the program does not declare it."""
        return next((resource for resource in self.of(TOPIC) if resource.full_name == name), None)

    def _topic(self, resource: Resource, place: str, text: str | None) -> str | None:
        """Full name of a topic, or its URN where its name is not known; None where nothing is."""
        made_from = self._made_from(resource, TOPIC, place)
        if len(made_from) == 1:
            return made_from[0].full_name
        return None if text is None else self._named(text, resource.properties.known_text("project"))

    def _named(self, text: str, project: str | None) -> str:
        """Full name of the topic that a text means in a project; that of a declared one where it is one."""
        text = f"projects/{project}/topics/{text}" if "/" not in text and project else text
        for topic in self.of(TOPIC):
            if text == topic.full_name or topic.may_be(text):
                return topic.full_name
        return text

    def publishers(self, delivery: Delivery) -> list[Service]:
        """Services that publish to the topic of a delivery, and the one that its worker reports to, as their
        environments say.
        """
        topic = self.topic_of(delivery.subscription)
        reported = delivery.service.known_variable("API_BASE_URL")
        api = self.service_at(reported) if reported else None
        publishing = [
            service for service in self.services if topic is not None and topic == self._publishes_to(service)
        ]
        return publishing if api is None or api in publishing else [*publishing, api]

    def _publishes_to(self, service: Service) -> str | None:
        """Name of the topic that a service publishes to, see `_topic`."""
        if "EXECUTION_TOPIC" not in service.known_names:
            return None
        text = service.known_variable("EXECUTION_TOPIC")
        if text is None:
            return self._topic(service.resource, "template", None)
        return self._named(text, service.properties.known_text("project"))

    def account(self, resource: Resource, text: str | None, *places: str) -> str:
        """Who an account is: its e-mail, or its URN where that is not known yet; "" where nothing is.

        Args:
            resource: where the account is named.
            text: what is known of the name.
            places: the properties that name it.
        """
        if text:
            return text.lower()
        made_from = self._made_from(resource, ACCOUNT, *places)
        return self.email_of(made_from[0]) if len(made_from) == 1 else ""

    def email_of(self, account: Resource) -> str:
        """E-mail of a declared account, or its URN where it is not known yet."""
        said = account.properties.known_text("email")
        name, project = account.properties.known_text("accountId"), account.properties.known_text("project")
        return (said or (f"{name}@{project}.iam.gserviceaccount.com" if name and project else account.urn)).lower()

    def runs_as(self, workload: Workload) -> str:
        """The account of what Cloud Run runs, see `account`; "" also where it names none."""
        if not workload.properties.has(*workload.account_place):
            return ""
        return self.account(workload.resource, workload.properties.known_text(*workload.account_place), "template")

    def pushes_as(self, subscription: Subscription) -> str:
        """The identity of a subscription's push tokens, see `account`; "" also where it pushes without."""
        if not subscription.properties.has("pushConfig", "oidcToken"):
            return ""
        text = subscription.properties.known_text("pushConfig", "oidcToken", "serviceAccountEmail")
        return self.account(subscription.resource, text, "pushConfig")

    def calls_as(self, job: Resource) -> str:
        """The identity of a scheduler job's tokens, see `account`; "" also where it calls without."""
        if not job.properties.has("httpTarget", "oidcToken"):
            return ""
        text = job.properties.known_text("httpTarget", "oidcToken", "serviceAccountEmail")
        return self.account(job, text, "httpTarget")

    def callers(self, service: Service) -> set[str]:
        """Identities with which declared subscriptions, scheduler jobs and services call a service."""
        pushing = {self.pushes_as(found.subscription) for found in self.deliveries if found.service == service}
        calling = {self.calls_as(job) for job, called in self.calls if called == service}
        waiting = {self.runs_as(each) for each in self.services if self.executor_of(each) == service}
        return (pushing | calling | waiting) - {""}

    def executor_of(self, service: Service) -> Service | None:
        """The declared service that another one hands runs to, as its environment says."""
        url = service.known_variable("EXECUTOR_URL")
        return self.service_at(url) if url else None

    @cached_property
    def calls(self) -> Sequence[tuple[Resource, Service]]:
        """Scheduler jobs with the services that they call."""
        found = []
        for job in self.of(SCHEDULER_JOB):
            uri = job.properties.known_text("httpTarget", "uri")
            made_from = [urn for urn in job.came_from("httpTarget") if urn in {each.urn for each in self.services}]
            service = self.service_at(uri) if uri else None
            if service is None and len(made_from) == 1:
                service = next(each for each in self.services if each.urn == made_from[0])
            if service is not None:
                found.append((job, service))
        return found

    def _member(self, grant: Resource, numbers: frozenset[str]) -> str:
        text = grant.properties.known_text("member")
        if text is not None:
            return text
        agents = self._made_from(grant, SERVICE_IDENTITY, "member")
        if any(agent.properties.known_text("service") == "pubsub.googleapis.com" for agent in agents):
            return f"serviceAccount:service-{min(numbers, default='0')}@{PUBSUB_AGENT}.iam.gserviceaccount.com"
        account = self.account(grant, None, "member")
        return f"serviceAccount:{account}" if account else ""

    def source(self, resource: Resource, wanted: str, place: str) -> Resource | None:
        """The one resource of a type that a property came from."""
        made_from = self._made_from(resource, wanted, place)
        return made_from[0] if len(made_from) == 1 else None

    def _made_from(self, resource: Resource, wanted: str, *places: str) -> list[Resource]:
        sources = (self._by_urn.get(urn) for urn in resource.came_from(*places))
        return [source for source in sources if source is not None and source.type == wanted]
